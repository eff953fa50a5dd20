"""Whatever programs ask, their requests are in the log as they were sent."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harken.context.materialize import materialize
from harken.core import codec
from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.messages import extend_context_hash, message_hash
from harken.recording.exchange import Hints
from harken.recording.rebuilt import Rebuilder
from harken.session.fold import context_now, fold
from harken.session.reader import events
from harken.session.state import SessionState
from harken.store.memory import MemoryStore
from tests.recording_kit import Body, Client, check, logs, recorder

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


@dataclass
class Talk:
    """A conversation as its client has it."""

    body: Body
    client: Client
    waiting: list[str] = field(default_factory=list)

    def said(self) -> list[Any]:
        said: list[Any] = self.body["messages"]
        return said


@dataclass
class World:
    """Conversations at once, and who records them."""

    folder: Path
    data: st.DataObject
    store: MemoryStore = field(default_factory=MemoryStore)
    talks: list[Talk] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recorder = recorder(self.folder, store=self.store)
        for hints in (Hints(), Hints(client="claude-code", session="abc"), Hints(session="d")):
            self.clients.append(Client(self.recorder, hints))

    def begin(self) -> None:
        body: Body = {"model": "claude", "messages": [self.user()]}
        system, tools = self.data.draw(SYSTEM), self.data.draw(TOOLS)
        body |= {} if system is None else {"system": system}
        body |= {} if tools is None else {"tools": tools}
        self.talks.append(Talk(body, self.data.draw(st.sampled_from(self.clients))))

    def user(self) -> Body:
        return {"role": "user", "content": self.data.draw(CONTENT)}

    def talk(self) -> Talk:
        if not self.talks:
            self.begin()
        return self.talks[self.data.draw(st.integers(0, len(self.talks) - 1))]

    def ask(self) -> None:
        """Ask and hear; the answer goes into the conversation, as it came or changed."""
        talk = self.talk()
        id_, answer = talk.client.begin(talk.body), self.data.draw(SAID)
        talk.client.end(id_, answer)
        self.hear(talk, answer)

    def hear(self, talk: Talk, answer: Any) -> None:
        blocks = [{"type": "text", "text": answer}] if isinstance(answer, str) else answer
        how = self.data.draw(st.sampled_from(["as it came", "as text", "trimmed", "ignored"]))
        if how != "ignored":
            said: Body = {"role": "assistant", "content": copy.deepcopy(blocks)}
            if how == "as text" and isinstance(answer, str):
                said["content"] = answer
            elif how == "trimmed":
                said["content"] = [{**block, "extra": None} for block in blocks]
            talk.said().append(said)
        talk.said().append(self.user())

    def half(self) -> None:
        talk = self.talk()
        talk.waiting.append(talk.client.begin(talk.body))

    def whole(self) -> None:
        talk = self.talk()
        if talk.waiting:
            answer = self.data.draw(SAID)
            talk.client.end(talk.waiting.pop(), answer)
            self.hear(talk, answer)

    def fail(self) -> None:
        talk = self.talk()
        talk.client.ask(talk.body, None)

    def fork(self) -> None:
        talk = self.talk()
        cut = self.data.draw(st.integers(0, len(talk.said())))
        body = copy.deepcopy(talk.body)
        body["messages"] = [*body["messages"][:cut], self.user()]
        self.talks.append(Talk(body, talk.client))

    def truncate(self) -> None:
        said = self.talk().said()
        del said[: self.data.draw(st.integers(0, len(said) - 1))]

    def compact(self) -> None:
        talk = self.talk()
        summary = f"What was before: {json.dumps(talk.said()[-1]['content'])}"
        keep = self.data.draw(st.integers(0, 2))
        talk.body["messages"] = [
            {"role": "user", "content": summary},
            *talk.said()[len(talk.said()) - keep :],
        ]

    def rewrite(self) -> None:
        said = self.talk().said()
        said[self.data.draw(st.integers(0, len(said) - 1))] = self.user()

    def dress(self) -> None:
        talk = self.talk()
        for message in talk.said():
            if isinstance(message["content"], str):
                message["content"] = [{"type": "text", "text": message["content"]}]
        if isinstance(talk.said()[-1]["content"], list) and talk.said()[-1]["content"]:
            talk.said()[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}

    def resystem(self) -> None:
        self.talk().body["system"] = self.data.draw(WORDS)

    def restart(self) -> None:
        if self.data.draw(st.booleans()):
            self.recorder.close()
        for run in self.recorder._shelf.runs:
            run.close()  # as the end of a process does
        held = [one.request.call for one in self.recorder._held.values()]
        self.recorder = recorder(self.folder, store=self.store)
        for client in self.clients:
            client.recorder = self.recorder
        for call in held:
            self.recorder.begin(call)  # the spool has what is in no log


STEPS = [
    *["ask"] * 6,
    *["begin", "half", "whole", "fail", "fork", "truncate", "compact", "rewrite", "dress"],
    *["resystem", "restart"],
]


def run(folder: Path, data: st.DataObject, most: int) -> World:
    world = World(folder, data)
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=most)):
        getattr(world, step)()
    return world


def check_logs(world: World) -> None:
    """Check that logs and commits say of each agent what it read."""
    for path in logs(world.folder):
        log = Rebuilder(events(path))
        for id_, request in log.requests.items():
            hash_ = ""
            for message in log.messages(id_):
                hash_ = extend_context_hash(hash_, message)
            assert (hash_, len(log.messages(id_))) == (request.context_hash, request.count)
        state = SessionState()
        for event in events(path):
            fold(state, event)
            if isinstance(event, ev.ContextCommitted):
                whole = materialize(world.store, CommitId(event.ctx)).messages
                context = context_now(state.agents[event.agent_id or ""])  # type: ignore[index]
                assert [*map(message_hash, whole)] == [*map(message_hash, context)]


@pytest.mark.req("S3-17")
@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_request_comes_back_as_it_was_sent(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        world = run(Path(folder), data, 30)
        world.recorder.close()
        check(world.folder, world.clients)
        check_logs(world)


@pytest.mark.full
@given(st.data())
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_requests_come_back_as_they_were_sent(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        world = run(Path(folder), data, 60)
        world.recorder.close()
        check(world.folder, world.clients)
        check_logs(world)


def test_values_are_compared_type_by_type() -> None:
    assert codec.canonical({"a": 1}) != codec.canonical({"a": 1.0})
