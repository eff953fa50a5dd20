"""`CassetteProtocol`: what a test asked of models, recorded once and given again offline.

One idea: a cassette is a session log like any other, so it can be looked at, searched and
compared; and what stands in it is redacted before it is written. A request is redacted before it
is looked for, too: so a test with another key, or none, finds what was recorded with one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias, TypeVar, get_args

from harken.core.clock import Clock, system_clock
from harken.core.stream import Chunk
from harken.errors import ConfigError, ReplayMiss
from harken.experiments.cassette.client import HINT, wrapped
from harken.experiments.cassette.log import RECORDED, CassetteLog, redacted
from harken.llm.base import Model, ModelRequest
from harken.llm.replay import ReplayLog, ReplayModel

Mode: TypeAlias = Literal["once", "none", "new", "all"]
"""`once`: record where there is no cassette, else only replay; `none`: only replay; `new`: replay
what is there and record the rest; `all`: record everything anew."""
MODES: tuple[Mode, ...] = get_args(Mode)

Client = TypeVar("Client")


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
        self._recording = ReplayLog.read(file) if keeps else ReplayLog()
        self.replay = ReplayModel(self._recording, f"replay:{file.name}")
        """Gives what was there when the cassette was opened, for requests that are redacted."""
        self._keeps = keeps
        self._tape: CassetteLog | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def model(self, model: Model | Callable[[], Model], *, name: str = "") -> CassetteModel:
        """Return a model that answers from the record, and asks `model` where that may be.

        model: also a function that makes one, for a model that needs a key or a network: it is
        called when something is recorded. name: as the log calls it; empty: as the model says.
        """
        return CassetteModel(self, model, name)

    def wrap(self, client: Client) -> Client:
        """Return a client of the `openai` or `anthropic` SDK, or of httpx, that does the same.

        Its answers come from the record, as they were on the wire, streams too. A request that is
        not there is answered as a bad one, with what is nearest. Raises TypeError for what is no
        such client.
        """
        return wrapped(client, self)

    def asks_record(self, request: ModelRequest) -> bool:
        """Whether the answer to a request that was redacted comes from the record, if from any."""
        return self.replay.has(request) or not self.records

    @property
    def tape(self) -> CassetteLog:
        """Where new calls are written down: beside the cassette, until it is closed."""
        if self._tape is None:
            self._folder = TemporaryDirectory(prefix="harken-cassette-")
            log = Path(self._folder.name) / self.file.name
            if self._keeps:
                log.write_bytes(self.file.read_bytes())
            self._tape = CassetteLog(log, self._clock)
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

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer from the record, else from the model. Raises ModelError, and ReplayMiss.

        A miss says which recorded request is nearest, and where they differ first.
        """
        cassette, asked = self._cassette, redacted(request)
        if cassette.asks_record(asked):
            try:
                async for chunk in cassette.replay.stream(asked):
                    yield chunk
            except ReplayMiss as error:
                raise ReplayMiss(f"{error}; {HINT}") from None
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
