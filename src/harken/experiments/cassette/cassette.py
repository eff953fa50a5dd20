"""`Cassette`: record the model calls of a test once, and replay them offline.

A cassette is an ordinary session log, so it can be viewed, searched and compared. Its content is
redacted before it is written. Requests are redacted before they are looked up as well, so a test
with another key, or without one, finds a recorded response.
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
from harken.experiments.cassette.client import RECORD_HINT, wrap_client
from harken.experiments.cassette.log import RECORDED_BY, CassetteLog, redact_request
from harken.llm.base import Model, ModelRequest
from harken.llm.replay import ReplayLog, ReplayModel

Mode: TypeAlias = Literal["once", "none", "new", "all"]
"""`once`: record if there is no cassette, otherwise replay only.

`none`: replay only. `new`: replay recorded calls and record the others. `all`: record all calls
again.
"""
MODES: tuple[Mode, ...] = get_args(Mode)

Client = TypeVar("Client")


class Cassette:
    """A file of recorded calls. New calls are written to it on close."""

    def __init__(self, file: Path, mode: Mode = "once", *, clock: Clock = system_clock) -> None:
        """Use a file, which may not exist yet. Raises ConfigError for an invalid mode.

        Raises LogError if the file is not a session log.
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
        """Replays the calls of the file as it was opened, for redacted requests."""
        self._keeps_calls = keeps
        self._log: CassetteLog | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def model(self, model: Model | Callable[[], Model], *, name: str = "") -> CassetteModel:
        """Return a model that answers from the cassette, or calls `model` if that is allowed.

        `model` may be a function that creates one, for models that need a key or a network; it is
        called only to record. `name` is the model name in the log; if empty, the model's own name.
        """
        return CassetteModel(self, model, name)

    def wrap(self, client: Client) -> Client:
        """Return a client of the `openai` or `anthropic` SDK, or of httpx, that uses the cassette.

        Recorded responses are returned as they were on the wire, including streams. A request that
        is not recorded gets a response with status 400 that describes the nearest recorded request.
        Raises TypeError for other clients.
        """
        return wrap_client(client, self)

    def asks_record(self, request: ModelRequest) -> bool:
        """Whether a redacted request is answered from the cassette, or not at all."""
        return self.replay.has_answer(request) or not self.records

    @property
    def log(self) -> CassetteLog:
        """The log of new calls, in a temporary folder until the cassette is closed."""
        if self._log is None:
            self._folder = TemporaryDirectory(prefix="harken-cassette-")
            log = Path(self._folder.name) / self.file.name
            if self._keeps_calls:
                log.write_bytes(self.file.read_bytes())
            self._log = CassetteLog(log, self._clock)
        return self._log

    def close(self, *, keep: bool = True) -> None:
        """Write new calls to the file. Without `keep`, or without new calls, the file is unchanged.

        Closing twice has no effect. Raises OSError if the file cannot be written.
        """
        tape, folder = self._log, self._folder
        self._log = self._folder = None
        if tape is None or folder is None:
            return
        try:
            tape.session.end(RECORDED_BY)
            if keep:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                temporary = self.file.with_name(f".{self.file.name}.{os.getpid()}.part")
                temporary.write_bytes(tape.session.path.read_bytes())
                temporary.replace(self.file)
        finally:
            folder.cleanup()


class CassetteModel:
    """A model that answers from a cassette."""

    def __init__(
        self, cassette: Cassette, model: Model | Callable[[], Model], name: str = ""
    ) -> None:
        self._cassette, self._model_or_factory, self._name = cassette, model, name

    @property
    def name(self) -> str:
        """Name of the model in the log."""
        return self._name or getattr(self._model_or_factory, "name", "") or "cassette"

    @property
    def context_window(self) -> int | None:
        """Context window of the model in tokens, if it is known."""
        return getattr(self._model_or_factory, "context_window", None)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer from the cassette, else from the model. Raises ModelError, ReplayMiss.

        The text of ReplayMiss describes the nearest recorded request and the first difference.
        """
        cassette, safe_request = self._cassette, redact_request(request)
        if cassette.asks_record(safe_request):
            try:
                async for chunk in cassette.replay.stream(safe_request):
                    yield chunk
            except ReplayMiss as error:
                raise ReplayMiss(f"{error}; {RECORD_HINT}") from None
            return
        call = cassette.log.begin(safe_request, self.name)
        async for chunk in self._get_model().stream(request):
            call.draft.add(chunk)
            yield chunk
        call.end()

    def _get_model(self) -> Model:
        if callable(self._model_or_factory) and not hasattr(self._model_or_factory, "stream"):
            self._model_or_factory = self._model_or_factory()
        return self._model_or_factory  # type: ignore[return-value]
