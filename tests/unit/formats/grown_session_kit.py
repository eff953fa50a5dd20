"""Random sessions of Pi, Copilot CLI and Gemini CLI, for tests of files that grow."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]


def _encode(records: Iterable[Record], rng: random.Random) -> bytes:
    """Return records as lines, of which some are damaged."""
    lines = [json.dumps(record).encode() for record in records]
    for _ in range(rng.choice([0, 0, 1, 3])):
        index = rng.randrange(1, len(lines))
        lines[index] = rng.choice([b"", b"{torn", lines[index] + lines[index - 1], b'{"type":"x"}'])
    return b"\n".join(lines) + b"\n"


def _time(number: int, rng: random.Random) -> Record:
    """Return a time. Some records have none."""
    text = f"2026-01-31T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
    return {"timestamp": text} if rng.random() < 0.8 else {}


def _pi_message(number: int, rng: random.Random) -> Record:
    match rng.choices(range(5), [30, 40, 30, 3, 2])[0]:
        case 0:
            return {"role": "user", "content": f"question {number}"}
        case 1:
            call = {"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {}}
            text = {"type": "text", "text": f"answer {number}"}
            return {"role": "assistant", "content": rng.sample([call, text], rng.randrange(1, 3))}
        case 2:
            return {"role": "toolResult", "toolCallId": f"c{number - 1}", "content": "ok"}
        case 3:
            return {"role": "bashExecution", "command": "ls", "output": f"{number}"}
        case _:
            return {"role": "unknown"}


def pi_session(seed: int, count: int) -> bytes:
    """Return a random session of Pi, with branches, compactions, and ids that repeat."""
    rng = random.Random(seed)
    version = rng.choice([3, 3, 3, 1])
    header: Record = {"type": "session", "id": "pi-1", "cwd": "/w"}
    records = [header | ({} if version == 1 else {"version": version})]
    branching = rng.choice([0.0, 0.02, 0.1, 0.4])
    ids: list[str] = []
    for number in range(count):
        id_ = f"e{number}" if rng.random() < 0.98 or not ids else rng.choice(ids)
        parent = ids[-1] if ids else None
        if ids and rng.random() < branching:
            parent = rng.choice([*ids[-rng.choice([3, 10, 1000]) :], "missing", None])
        kind = rng.choices(range(7), [80, 3, 2, 2, 2, 2, 1])[0]
        options: list[Record] = [
            {"type": "message", "message": _pi_message(number, rng)},
            {"type": "model_change", "modelId": "m"},
            {"type": "session_info", "name": f"title {number}"},
            {"type": "custom_message", "customType": "x", "content": f"custom {number}"},
            {"type": "branch_summary", "summary": f"branch {number}"},
            {"type": "compaction", "summary": f"so far {number}"},
            {"type": "session", "id": "pi-2", "version": 3},
        ]
        record = options[kind]
        if kind == 5 and ids and version == 1:
            record["firstKeptEntryIndex"] = rng.randrange(max(0, number - 6), number + 1)
        elif kind == 5 and ids and rng.random() < 0.8:
            record["firstKeptEntryId"] = rng.choice([*ids[-6:], "missing"])
        names = {} if version == 1 else {"id": id_, "parentId": parent}
        records.append(names | _time(number, rng) | record)
        if kind != 6:
            ids.append(id_)
    return _encode(records, rng)


def copilot_session(seed: int, count: int) -> bytes:
    """Return a random session of Copilot CLI, with several subagents at a time."""
    rng = random.Random(seed)
    start = {"sessionId": "0199-a", "copilotVersion": "1.0.64", "context": {"cwd": "/w"}}
    records: list[Record] = [{"type": "session.start", "data": start, "id": "e0"}]
    agents: list[str] = []
    spawning = rng.choice([0.0, 0.02, 0.1])
    for number in range(count):
        if rng.random() < spawning:
            agents.append(f"agent{number}")
        owner: Record = {}
        if agents and rng.random() < 0.5:
            owner = {"agentId": rng.choice(agents[-3:])}
        call = {"toolCallId": f"c{number}", "name": "bash", "arguments": {"command": "ls"}}
        kind = rng.choices(range(9), [20, 40, 40, 4, 4, 4, 2, 5, 2])[0]
        name, data = [
            ("user.message", {"content": f"question {number}"}),
            (
                "assistant.message",
                {"content": f"answer {number}", "toolRequests": [call], "reasoningOpaque": "x"},
            ),
            (
                "tool.execution_complete",
                {"toolCallId": f"c{number - 1}", "result": {"content": f"out {number}"}},
            ),
            ("system.message", {"content": rng.choice(["Be.", "Be kind.", ""])}),
            ("system.notification", {"content": f"notice {number}"}),
            ("hook.start", {}),
            ("session.compaction_complete", {"summaryContent": f"so far {number}"}),
            ("subagent.completed", {"toolCallId": owner.get("agentId", "")}),
            ("session.resume", {"copilotVersion": f"1.0.{number}"}),
        ][kind]
        ids = {"id": f"e{number}"} if rng.random() < 0.95 else {}
        records.append({"type": name, "data": data} | ids | _time(number, rng) | owner)
    return _encode(records, rng)


def _gemini_answer(number: int, version: int) -> Record:
    """Return a version of an answer: with text, with calls, with results."""
    call: Record = {"id": f"c{number}", "name": "look", "args": {}}
    answer: Record = {"id": f"m{number}", "type": "gemini", "content": f"answer {number}"}
    if version:
        answer["toolCalls"] = [call]
    if version > 1:
        response = {"id": f"c{number}", "name": "look", "response": {"output": f"out {number}"}}
        call["result"], answer["tokens"] = [{"functionResponse": response}], {"input": number}
    return answer


def gemini_chat(seed: int, count: int) -> bytes:
    """Return a random chat of Gemini CLI, with versions of messages, rewinds and lists of all."""
    rng = random.Random(seed)
    records: list[Record] = [{"sessionId": "0199-a", "projectHash": "f" * 64}]
    messages: list[Record] = []
    changes = rng.choice([0.0, 0.01, 0.1])
    for number in range(count):
        kind = rng.choices(range(5), [30, 50, 10, 10, 3])[0]
        if rng.random() < changes and messages:
            kind = rng.choices(range(5, 9), [5, 3, 1, 1])[0]
        added: list[Record] = []
        match kind:
            case 0:
                added = [{"id": f"m{number}", "type": "user", "content": f"question {number}"}]
            case 1:
                versions = rng.choice([(0,), (0, 1), (0, 1, 2), (2,)])
                added = [_gemini_answer(number, version) for version in versions]
            case 2:  # A result that the call may have already.
                call = rng.randrange(max(0, number - 5), number + 1)
                output = {"output": rng.choice([f"out {call}", "again"])}
                response = {"id": f"c{call}", "name": "look", "response": output}
                content = [{"functionResponse": response}]
                added = [{"id": f"m{number}", "type": "user", "content": content}]
            case 3:
                records.append({"$set": {"lastUpdated": f"{number}"}})
            case 4:
                added = [{"id": f"m{number}", "type": "info", "content": "note"}]
            case 5:  # A later version of an earlier message.
                added = [rng.choice(messages[-rng.choice([2, 5, 1000]) :])]
            case 6:
                ids = [message["id"] for message in messages[-rng.choice([3, 10, 1000]) :]]
                records.append({"$rewindTo": rng.choice([*ids, "missing"])})
            case 7:
                records.append({"$set": {"messages": messages[: rng.randrange(len(messages) + 1)]}})
            case _:
                records.append({"$set": {"messages": rng.sample(messages, min(3, len(messages)))}})
        messages += added
        records += [record | _time(number, rng) for record in added]
    return _encode(records, rng)
