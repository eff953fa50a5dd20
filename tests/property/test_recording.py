"""Whatever programs ask, their requests are in the log as they were sent."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harken.context.materialize import materialize
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.messages import extend_context_hash, message_hash
from harken.recording.exchange import ClientHints
from harken.recording.rebuild import RequestRebuilder
from harken.session.fold import current_messages, fold
from harken.session.log.reader import iter_events
from harken.session.state import SessionState
from harken.store.memory import MemoryStore
from tests.recording_kit import (
    Body,
    RecordedClient,
    check_rebuilt_bodies,
    log_paths,
    open_recorder,
    response_body,
)

WORDS = st.sampled_from(["Hi", "Go on.", "Who are you?", "The answer is 42, as it always was."])
ODD = st.sampled_from(
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        {"type": "text", "text": "Hi", "citations": None},
        {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "search_result", "rank": 1.0, "of": 1, "is": True},
        {"type": "tool_result", "tool_use_id": "t1", "content": "a door"},
        {"type": "tool_result", "tool_use_id": "", "content": [], "is_error": False},
        {"type": "tool_result"},
        {"text": "without a type", "é": "\ud83d"},
    ]
)
CONTENT = WORDS | st.lists(WORDS.map(lambda text: {"type": "text", "text": text}) | ODD, max_size=3)
SAID = WORDS | st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "Hello."},
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "the door, please"}},
            {"type": "tool_use", "id": "t2", "name": "task", "input": {"prompt": "Who are you?"}},
            {"type": "server_tool_use", "id": "s1", "name": "web", "input": {}},
        ]
    ),
    min_size=1,
    max_size=3,
)
SYSTEM = st.none() | WORDS | st.lists(WORDS.map(lambda t: {"type": "text", "text": t}), max_size=2)
TOOLS = st.sampled_from([None, [], [{"name": "look", "input_schema": {"minimum": 0}}]])


Blocks = list[Body]


@dataclass(frozen=True)
class Style:
    """How programs talk in one protocol. Blocks are Anthropic's."""

    protocol: str
    path: str
    said: str
    """The member that holds what was said."""
    user: Callable[[Any], list[Any]]
    """What a user says, as it stands there."""
    answer: Callable[[Blocks], tuple[Body, list[Any]]]
    """An answer, and what its client makes of it."""
    system: Callable[[Any], Body]
    text: Callable[[Any], str]
    """Any text of a value that stands there."""


def _anthropic(blocks: Blocks) -> tuple[Body, list[Any]]:
    return response_body(blocks), [{"role": "assistant", "content": copy.deepcopy(blocks)}]


def _texts(blocks: Any) -> str:
    return blocks if isinstance(blocks, str) else " ".join(b.get("text", "") for b in blocks)


def _chat(blocks: Blocks) -> tuple[Body, list[Any]]:
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    message: Body = {"role": "assistant", "content": _texts(blocks) or None}
    message |= {"tool_calls": calls} if calls else {}
    members = {name: value for name, value in message.items() if value is not None}
    choice = {"index": 0, "message": {**message, "refusal": None}, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "model": "gpt", "choices": [choice]}, [members]


def _responses(blocks: Blocks) -> tuple[Body, list[Any]]:
    items: list[Body] = []
    for index, block in enumerate(blocks):
        if block["type"] == "tool_use":
            call = {"call_id": block["id"], "name": block["name"]}
            arguments = json.dumps(block["input"])
            items.append(
                {"type": "function_call", "id": f"fc{index}", "arguments": arguments, **call}
            )
        else:
            text = [{"type": "output_text", "text": _texts([block]), "annotations": []}]
            items.append(
                {"type": "message", "id": f"m{index}", "role": "assistant", "content": text}
            )
    response = {"id": "resp_1", "model": "gpt", "status": "completed", "output": items}
    return response, [{name: v for name, v in item.items() if name != "id"} for item in items]


def _gemini(blocks: Blocks) -> tuple[Body, list[Any]]:
    parts = [
        {"functionCall": {"name": block["name"], "args": block["input"]}}
        if block["type"] == "tool_use"
        else {"text": _texts([block]) or "..."}
        for block in blocks
    ]
    content = {"role": "model", "parts": parts}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "modelVersion": "gemini"}, [copy.deepcopy(content)]


def _system(system: Any) -> Body:
    return {"system": system}


STYLES = (
    *[
        Style(
            "anthropic-messages",
            "/v1/messages",
            "messages",
            lambda content: [{"role": "user", "content": content}],
            _anthropic,
            _system,
            lambda value: _texts(value["content"]),
        )
    ]
    * 3,
    Style(
        "openai-chat",
        "/v1/chat/completions",
        "messages",
        lambda content: [{"role": "user", "content": content}],
        _chat,
        lambda system: {"system_is_elsewhere": system},
        lambda value: _texts(value.get("content") or ""),
    ),
    Style(
        "openai-responses",
        "/v1/responses",
        "input",
        lambda content: [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
            for text in [_texts(content)]
        ],
        _responses,
        lambda system: {"instructions": _texts(system or "")},
        lambda value: _texts(value.get("content") or ""),
    ),
    Style(
        "gemini",
        "/v1beta/models/gemini-pro:generateContent",
        "contents",
        lambda content: [{"role": "user", "parts": [{"text": _texts(content)}]}],
        _gemini,
        lambda system: {"systemInstruction": {"parts": [{"text": _texts(system or "")}]}},
        lambda value: _texts(value["parts"]),
    ),
)


@dataclass
class Talk:
    """A conversation as its client has it."""

    body: Body
    client: RecordedClient
    style: Style
    waiting: list[str] = field(default_factory=list)

    def said(self) -> list[Any]:
        messages: list[Any] = self.body[self.style.said]
        return messages

    def begin(self) -> str:
        self.client.protocol, self.client.path = self.style.protocol, self.style.path
        return self.client.begin(self.body)


@dataclass
class LocalWorld:
    """Conversations at once, and who records them."""

    folder: Path
    data: st.DataObject
    store: MemoryStore = field(default_factory=MemoryStore)
    talks: list[Talk] = field(default_factory=list)
    clients: list[RecordedClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recorder = open_recorder(self.folder, store=self.store)
        for hints in (
            ClientHints(),
            ClientHints(client="claude-code", session="abc"),
            ClientHints(session="d"),
        ):
            self.clients.append(RecordedClient(self.recorder, hints))

    def begin(self) -> None:
        style = self.data.draw(st.sampled_from(STYLES))
        body: Body = {"model": "claude", style.said: self.user(style)}
        system, tools = self.data.draw(SYSTEM), self.data.draw(TOOLS)
        body |= {} if system is None else style.system(system)
        body |= {} if tools is None else {"tools": tools}
        self.talks.append(Talk(body, self.data.draw(st.sampled_from(self.clients)), style))

    def user(self, style: Style) -> list[Any]:
        return style.user(self.data.draw(CONTENT))

    def talk(self) -> Talk:
        if not self.talks:
            self.begin()
        return self.talks[self.data.draw(st.integers(0, len(self.talks) - 1))]

    def ask(self) -> None:
        """Ask and hear; the answer goes into the conversation, as it came or changed."""
        talk = self.talk()
        self.hear(talk, talk.begin())

    def hear(self, talk: Talk, id_: str) -> None:
        drawn: Any = self.data.draw(SAID)
        blocks = [{"type": "text", "text": drawn}] if isinstance(drawn, str) else drawn
        response, messages = talk.style.answer(blocks)
        talk.client.end(id_, whole=response)
        how = self.data.draw(st.sampled_from(["as it came", "as it came", "changed", "ignored"]))
        if how == "changed":
            messages = [{**message, "extra": None} for message in messages]
        if how != "ignored":
            talk.said().extend(messages)
        talk.said().extend(self.user(talk.style))

    def half(self) -> None:
        talk = self.talk()
        talk.waiting.append(talk.begin())

    def whole(self) -> None:
        talk = self.talk()
        if talk.waiting:
            self.hear(talk, talk.waiting.pop())

    def fail(self) -> None:
        talk = self.talk()
        talk.client.end(talk.begin(), None)

    def fork(self) -> None:
        talk = self.talk()
        length = self.data.draw(st.integers(0, len(talk.said())))
        body = copy.deepcopy(talk.body)
        body[talk.style.said] = [*talk.said()[:length], *self.user(talk.style)]
        self.talks.append(Talk(body, talk.client, talk.style))

    def truncate(self) -> None:
        messages = self.talk().said()
        del messages[: self.data.draw(st.integers(0, len(messages) - 1))]

    def compact(self) -> None:
        talk = self.talk()
        summary = " ".join(talk.style.text(message) for message in talk.said()[-2:])
        keep = self.data.draw(st.integers(0, 2))
        last_messages = talk.said()[len(talk.said()) - keep :]
        talk.body[talk.style.said] = [
            *talk.style.user(f"What was before: {summary}"),
            *last_messages,
        ]

    def rewrite(self) -> None:
        talk = self.talk()
        index = self.data.draw(st.integers(0, len(talk.said()) - 1))
        talk.said()[index : index + 1] = self.user(talk.style)

    def dress(self) -> None:
        for message in self.talk().said():
            content = message.get("content")
            if isinstance(content, str):
                message["content"] = [{"type": "text", "text": content}]
            elif isinstance(content, list) and content:
                content[-1]["cache_control"] = {"type": "ephemeral"}

    def resystem(self) -> None:
        talk = self.talk()
        talk.body |= talk.style.system(self.data.draw(WORDS))

    def restart(self) -> None:
        if self.data.draw(st.booleans()):
            self.recorder.close()
        for run in self.recorder._pool.open_sessions:
            run.close()  # as the end of a process does
        call_ids = [call.request.call for call in self.recorder._held_calls.values()]
        self.recorder = open_recorder(self.folder, store=self.store)
        for client in self.clients:
            client.recorder = self.recorder
        for call in call_ids:
            self.recorder.begin(call)  # the spool has what is in no log


STEPS = [
    *["ask"] * 6,
    *["begin", "half", "whole", "fail", "fork", "truncate", "compact", "rewrite", "dress"],
    *["resystem", "restart"],
]


def run(folder: Path, data: st.DataObject, max_steps: int) -> LocalWorld:
    """Return a world in which much has happened, closed: also where that fails, many times over."""
    world = LocalWorld(folder, data)
    try:
        for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=max_steps)):
            getattr(world, step)()
    finally:
        world.recorder.close()
    return world


def check_logs(world: LocalWorld) -> None:
    """Check that logs and commits say of each agent what it read."""
    for path in log_paths(world.folder):
        log = RequestRebuilder(iter_events(path))
        for id_, request in log.requests.items():
            hash_ = ""
            for message in log.messages(id_):
                hash_ = extend_context_hash(hash_, message)
            assert (hash_, len(log.messages(id_))) == (request.context_hash, request.count)
        state = SessionState()
        for event in iter_events(path):
            fold(state, event)
            if isinstance(event, ev.ContextCommitted):
                response = materialize(world.store, CommitId(event.ctx)).messages
                context = current_messages(state.agents[event.agent_id or ""])  # type: ignore[index]
                assert [*map(message_hash, response)] == [*map(message_hash, context)]


@pytest.mark.req("S3-17")
@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_recorded_requests_are_rebuilt(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        world = run(Path(folder), data, 30)
        check_rebuilt_bodies(world.folder, world.clients)
        check_logs(world)


@pytest.mark.full
@given(st.data())
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_recorded_requests_are_rebuilt(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        world = run(Path(folder), data, 60)
        check_rebuilt_bodies(world.folder, world.clients)
        check_logs(world)
