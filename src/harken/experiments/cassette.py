"""`Cassette`: what a test asked of models, recorded once and given again offline.

One idea: a cassette is a session log like any other, so it can be looked at, searched and
compared; and what stands in it is redacted before it is written. A request is redacted before it
is looked for, too: so a test with another key, or none, finds what was recorded with one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias, get_args

from harken.core import codec
from harken.core import events as ev
from harken.core.chunks import Chunk, Draft, Finish
from harken.core.clock import Clock, system_clock
from harken.core.ids import AgentId, MessageId
from harken.core.messages import (
    ChatMessage,
    Message,
    extend_context_hash,
    message_from,
    message_hash,
)
from harken.core.redaction import redact
from harken.core.replace import in_json
from harken.errors import ConfigError, ModelError, ReplayMiss
from harken.llm.base import Model, Request, ToolSchema, tools_hash
from harken.llm.replay import Recording, ReplayModel
from harken.session.session import Session, SessionOptions, entry_of
from harken.views.context import plain

Mode: TypeAlias = Literal["once", "none", "new", "all"]
"""`once`: record where there is no cassette, else only replay; `none`: only replay; `new`: replay
what is there and record the rest; `all`: record everything anew."""
MODES: tuple[Mode, ...] = get_args(Mode)
RECORDED = "harken-cassette"
"""What the birth of an agent in a cassette says that it was recorded by."""


class Cassette:
    """One file of recorded calls. What is recorded comes into it when it is closed."""

    def __init__(self, file: Path, mode: Mode = "once", *, clock: Clock = system_clock) -> None:
        """Use a file, which need not be there. Raises ConfigError for a mode that is none.

        Raises LogError for a file that is no session log.
        """
        if mode not in MODES:
            raise ConfigError(f"a cassette records {', '.join(MODES)}, not {mode!r}")
        self.file, self.mode = file, mode
        self.records = mode in ("new", "all") or (mode == "once" and not file.exists())
        """Whether calls may go to a real model."""
        keeps = file.exists() and mode != "all"
        self._clock = clock
        self._recording = Recording.read(file) if keeps else Recording()
        self._replay = ReplayModel(self._recording, f"replay:{file.name}")
        self._keeps = keeps
        self._tape: Tape | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def model(self, model: Model | Callable[[], Model], *, name: str = "") -> CassetteModel:
        """Return a model that answers from the record, and asks `model` where that may be.

        model: also a function that makes one, for a model that needs a key or a network: it is
        called when something is recorded. name: as the log calls it; empty: as the model says.
        """
        return CassetteModel(self, model, name)

    def known(self, request: Request) -> bool:
        """Whether the answer to a request, redacted, was there when the cassette was opened."""
        return self._replay.has(request)

    def replay(self, request: Request) -> AsyncIterator[Chunk]:
        """Give the recorded answer to a request that was redacted. Raises ReplayMiss."""
        return self._replay.stream(request)

    @property
    def tape(self) -> Tape:
        """Where new calls are written down: beside the cassette, until it is closed."""
        if self._tape is None:
            self._folder = TemporaryDirectory(prefix="harken-cassette-")
            log = Path(self._folder.name) / self.file.name
            if self._keeps:
                log.write_bytes(self.file.read_bytes())
            self._tape = Tape(log, self._clock)
        return self._tape

    def close(self, *, keep: bool = True) -> None:
        """Put what was recorded into the file; without `keep`, or without calls, nothing changes.

        A second call does nothing. Raises OSError where the file cannot be written.
        """
        tape, folder = self._tape, self._folder
        self._tape = self._folder = None
        if tape is None or folder is None:
            return
        try:
            tape.session.end(RECORDED)
            if keep:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                part = self.file.with_name(f".{self.file.name}.{os.getpid()}.part")
                part.write_bytes(tape.session.path.read_bytes())
                part.replace(self.file)
        finally:
            folder.cleanup()


class CassetteModel:
    """A model whose answers are those of a cassette."""

    def __init__(
        self, cassette: Cassette, model: Model | Callable[[], Model], name: str = ""
    ) -> None:
        self._cassette, self._given, self._name = cassette, model, name

    @property
    def name(self) -> str:
        """How the log calls it."""
        return self._name or getattr(self._given, "name", "") or "cassette"

    @property
    def context_window(self) -> int | None:
        """How many tokens the model reads at once, where it says so."""
        return getattr(self._given, "context_window", None)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Answer from the record, else from the model. Raises ModelError, and ReplayMiss.

        A miss says which recorded request is nearest, and where they differ first.
        """
        cassette, asked = self._cassette, redacted(request)
        if cassette.known(asked) or not cassette.records:
            try:
                async for chunk in cassette.replay(asked):
                    yield chunk
            except ReplayMiss as error:
                raise ReplayMiss(
                    f"{error}; record it with --harken-record=new, all anew with =all"
                ) from None
            return
        call = cassette.tape.begin(asked, self.name)
        async for chunk in self._real().stream(request):
            call.draft.add(chunk)
            yield chunk
        call.end()

    def _real(self) -> Model:
        if callable(self._given) and not hasattr(self._given, "stream"):
            self._given = self._given()
        return self._given  # type: ignore[return-value]


class Tape:
    """A session in which calls are written down as they are made, redacted."""

    def __init__(self, log: Path, clock: Clock = system_clock) -> None:
        self.session = Session(log, options=SessionOptions(durability="none", clock=clock))

    def begin(self, request: Request, model: str) -> Spoken:
        """Write down a request that was redacted, and which model it goes to."""
        session, agent = self.session, self._agent(request.agent, model)
        tools: MessageId | None = None
        if request.tools_hash is not None:
            tools = session.state.tools.get(request.tools_hash) or session.append(
                ev.ToolsDefined(
                    tools=[dict(tool) for tool in request.tools], tools_hash=request.tools_hash
                )
            )
        self._read(agent, request.messages)
        asked = ev.LlmRequest(
            agent_id=agent,
            context=session.agent(agent).segments(),
            count=len(request.messages),
            context_hash=request.context_hash,
            model=model,
            parameters=dict(request.parameters) or None,
            tools=tools,
        )
        return Spoken(session, agent, session.append(asked))

    def _agent(self, name: str, model: str) -> AgentId:
        """Return whose call it is: one agent of a name, unless that waits for an answer."""
        session = self.session
        for id_, state in session.agents.items():
            if state.name == name and id_ not in session.state.requests:
                return id_
        new, root = session.allocate_agent_id(), session.state.root
        cause = None if root is None else session.agents[root].birth
        session.log_agent_created(new, cause, name, model, spec={"recorded": RECORDED})
        return new

    def _read(self, agent: AgentId, messages: Sequence[ChatMessage]) -> None:
        """Let the agent read these messages; what it has read already is not written again."""
        had = self.session.context(agent)
        same = _same(map(_key, had), map(_key, messages))
        kept = len(had)
        new = [self.session.append(entry_of(agent, message)) for message in messages[same:]]
        if same < kept:
            segments = [ev.Segment(start=0, stop=same)] if same else []
            segments += [ev.Segment(entries=new)] if new else []
            edit = ev.TranscriptEdited(agent_id=agent, segments=segments, reason="rewritten")
            self.session.append(edit)


class Spoken:
    """A call that is written down, and the answer as it comes."""

    def __init__(self, session: Session, agent: AgentId, request: MessageId) -> None:
        self.session, self.agent, self.request = session, agent, request
        self.draft = Draft()
        self._started_us = session.options.clock()

    def end(self) -> None:
        """Write down a whole answer. Raises ModelError where it has no end."""
        if self.draft.finish is None:
            raise ModelError("the answer was cut off before its end: it was not recorded")
        answer = clean(self.draft.message())
        entry = self.session.append(entry_of(self.agent, answer))
        self.session.append(self._response(self.draft.finish, entry))

    def _response(self, finish: Finish, entry: MessageId) -> ev.LlmResponse:
        return ev.LlmResponse(
            agent_id=self.agent,
            request=self.request,
            entry=entry,
            stop_reason=finish.stop_reason,
            model=finish.model,
            usage=finish.usage,
            cost_usd=finish.cost_usd,
            latency_s=(self.session.options.clock() - self._started_us) / 1e6,
        )


def redacted(request: Request) -> Request:
    """Return a request without credentials; one that has none is the same by its hash."""
    messages = [clean(message) for message in request.messages]
    tools: list[ToolSchema] = [_without(dict(tool)) for tool in request.tools]
    return replace(
        request,
        messages=messages,
        tools=tools,
        parameters=_without(dict(request.parameters)),
        context_hash=reduce(extend_context_hash, messages, ""),
        tools_hash=tools_hash(tools) if request.tools_hash is not None else None,
    )


def clean(message: ChatMessage) -> Message:
    """Return a message without credentials, wherever they stand in it."""
    alone = plain(message)
    data = codec.encode(alone)
    without = _in_json(data)
    return alone if without == data else message_from(codec.decode(without))


def _without(value: Any) -> Any:
    data = codec.encode(value)
    without = _in_json(data)
    return value if without == data else codec.decode(without)


def _in_json(data: bytes) -> bytes:
    return in_json(data, lambda text: redact(text).text)


def _same(one: Iterable[object], two: Iterable[object]) -> int:
    """Return with how many equal items both begin."""
    same = 0
    for left, right in zip(one, two, strict=False):
        if left != right:
            break
        same += 1
    return same


def _key(message: ChatMessage) -> tuple[str, tuple[str, ...], str | None]:
    ids = tuple(call.id for call in message.tool_calls or ())
    return message_hash(message), ids, message.tool_call_id
