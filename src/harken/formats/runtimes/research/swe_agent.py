"""Trajectories of SWE-agent (`.traj`), of all versions: one JSON document per run.

`history` has the messages of the model, and `trajectory` a step for each action. What a step
repeats of the history is not read again; steps behind the end of the history are.

Source: docs/formats/swe-agent.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from harken.core.messages import Message, ThinkingPart, parts_of
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    get_object,
    get_objects,
    get_text,
    parse_json_text,
)
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.json_lines import read_document
from harken.formats.runtimes.research.documents import (
    digest_id,
    find_last_answer,
    parse_message,
    sum_usage,
)
from harken.formats.runtimes.steps import INSTRUCTIONS, PROMPT, SYSTEM, StepBuilder

NAME = "swe-agent-v1"
_MAIN_AGENTS = ("main", "primary")


def is_session_file(path: str, beginning: bytes) -> bool:
    """Whether a file is a trajectory, by its name and its first members."""
    first = beginning.lstrip()
    is_document = first.startswith(b"{") and b'"trajectory"' in beginning
    return path.endswith(".traj") and is_document


def iter_steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a trajectory. Raises FormatError."""
    document = read_document(source, reading, NAME)
    trajectory, history = get_objects(document, "trajectory"), get_objects(document, "history")
    if not trajectory and not history:
        raise FormatError(NAME, "it has no history and no trajectory")
    info, config = get_object(document, "info"), _parse_config(document.get("replay_config"))
    reading.session_id = digest_id([history, trajectory])
    reading.outcome = get_text(info, "exit_status")
    reading.version = get_text(info, "swe_agent_version")
    reading.folder = _find_folder(trajectory)
    reading.lines = reading.used_lines = len(history) + len(trajectory)
    messages = [*history, *_missing_messages(history, trajectory)]
    model = get_text(get_object(get_object(config, "agent"), "model"), "name")
    usage = sum_usage(
        get_object(info, "model_stats"), "tokens_sent", "tokens_received", "instance_cost"
    )
    yield from _Conversation(reading, messages, model, usage).steps()


class _Conversation(msgspec.Struct):
    """The messages of a trajectory, of one agent or several."""

    reading: ReadReport
    messages: list[Record]
    model: str
    usage: Record
    """Of all calls together. The last answer has it."""

    def steps(self) -> Iterator[ImportStep]:
        """Yield the steps, those of other agents where they follow the first one."""
        main = get_text(self.messages[0], "agent") or _MAIN_AGENTS[0]
        builders = {main: StepBuilder(self.reading)}
        last, is_asked = find_last_answer(self.messages), False
        for position, message in enumerate(self.messages):
            name = get_text(message, "agent") or main
            if name not in builders:
                yield from builders[main].pause()
                builders[name] = StepBuilder(
                    self.reading,
                    agent=name,
                    origin=builders[main].current,
                    numbers=builders[main].numbers,
                )
            parsed = parse_message(message)
            if parsed is None:
                self.reading.used_lines -= 1
                self.reading.count_uninterpreted(f"message/{get_text(message, 'role')}")
                continue
            source = self._describe(message, is_asked=is_asked, is_last=position == last)
            is_asked |= source["kind"] == PROMPT
            builder = builders[name]
            entry = ConversationEntry(_complete(parsed, message), None, source)
            yield from builder.add(str(position), builder.head, [entry])
        for builder in builders.values():
            yield from builder.end()

    def _describe(self, message: Record, *, is_asked: bool, is_last: bool) -> dict[str, Any]:
        role = get_text(message, "role")
        is_demo = message.get("is_demo") is True
        is_prompt = role == "user" and not is_asked and not is_demo
        kinds = {"system": INSTRUCTIONS, "assistant": "response", "tool": "tool_result"}
        source: dict[str, Any] = {"kind": PROMPT if is_prompt else kinds.get(role, SYSTEM)}
        if is_demo:
            source |= {"kind": "client" if role == "assistant" else SYSTEM, "is_demo": True}
        elif role == "assistant":
            source |= {"model": self.model} if self.model else {}
            source |= {"action": get_text(message, "action")} if message.get("action") else {}
            if is_last and self.usage:
                source |= {"usage": self.usage, "usage_of": "session"}
        return source


def _missing_messages(history: list[Record], trajectory: list[Record]) -> list[Record]:
    """Return the answers and observations of steps that the history lacks."""
    answers = sum(
        get_text(message, "role") == "assistant" and message.get("is_demo") is not True
        for message in history
    )
    messages: list[Record] = []
    for step in trajectory[answers:]:
        text = get_text(step, "response") or get_text(step, "thought")
        answer = {"role": "assistant", "content": text, "action": get_text(step, "action")}
        messages += [answer, {"role": "user", "content": get_text(step, "observation")}]
    # The last observation ends the run: the model did not receive it.
    return messages[:-1]


def _complete(parsed: Message, message: Record) -> Message:
    """Return a message with its thinking, and the call that a result names in its own way."""
    ids = message.get("tool_call_ids")
    if parsed.role == "tool" and not parsed.tool_call_id and isinstance(ids, list) and ids:
        return msgspec.structs.replace(parsed, tool_call_id=str(ids[0]))
    thoughts = [
        ThinkingPart(get_text(block, "thinking"))
        for block in get_objects(message, "thinking_blocks")
        if get_text(block, "thinking")
    ]
    if parsed.role == "assistant" and thoughts:
        return msgspec.structs.replace(parsed, content=[*thoughts, *parts_of(parsed.content)])
    return parsed


def _parse_config(value: Any) -> Record:
    """Return the configuration, which newer versions write as a text."""
    parsed = parse_json_text(value) if isinstance(value, str) else value
    return parsed if isinstance(parsed, dict) else {}


def _find_folder(trajectory: list[Record]) -> str:
    for step in reversed(trajectory):
        state = _parse_config(step.get("state"))
        if get_text(state, "working_dir"):
            return get_text(state, "working_dir")
    return ""


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="swe-agent",
    is_session_file=is_session_file,
    steps=iter_steps,
    copies_histories=False,
)
