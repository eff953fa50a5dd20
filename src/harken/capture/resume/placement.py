"""Placing: a written session is put where its client looks for it.

One idea: each client has a rule for where a session of a folder lies, and a new session has a new
id. So a file is only ever made, never written over; folders that are missing are made.

Source: docs/how-to/continue-anywhere.md, "Where it is put". Rules observed in the clients.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harken.capture.resume.clients import Client
from harken.capture.resume.session_folders import claude_name, gemini_name, make, pi_name
from harken.errors import ConfigError, FormatError
from harken.formats.runtimes.base import NewSessionInfo, ReadReport, RuntimeFormat, SessionFile

IMPORT_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHome:
    """Whose home, and in which environment: the user's, or one that is made to try something."""

    home: Path
    environ: Mapping[str, str]

    def folder(self, variable: str, default: str) -> Path:
        """Return the folder that a variable names, else the one of this name in the home."""
        given = self.environ.get(variable, "").strip()
        if given == "~" or given.startswith("~/"):
            return self.home / given[2:]
        return Path(given) if given else self.home / default


@dataclass(frozen=True, slots=True)
class PlacedSession:
    """A session that its client finds."""

    session: str
    """What the client is called with to go on with it."""
    file: Path | None
    """None: it is in a database of the client's."""


def place(
    client: Client, native: RuntimeFormat, data: bytes, new: NewSessionInfo, here: ClientHome
) -> PlacedSession:
    """Put a session where its client finds it. Raises ConfigError where that fails."""
    try:
        return _PLACES[client.runtime](client, _Written(native, data, new), here)
    except OSError as error:
        where = error.filename or here.home
        raise ConfigError(
            f"{where}: the session for {client.name} cannot be put there "
            f"({error.strerror or error}); nothing was overwritten"
        ) from None


@dataclass(frozen=True, slots=True)
class _Written:
    native: RuntimeFormat
    data: bytes
    new: NewSessionInfo

    @property
    def session(self) -> str:
        """The id that stands in it."""
        reading = ReadReport()
        with suppress(FormatError):
            for _ in self.native.steps(SessionFile("new session", lambda: [self.data]), reading):
                pass
        return reading.session_id or self.new.id


def _claude(_client: Client, written: _Written, here: ClientHome) -> PlacedSession:
    folder = here.folder("CLAUDE_CONFIG_DIR", ".claude") / "projects"
    file = folder / claude_name(written.new.folder) / f"{written.new.id}.jsonl"
    make(file, written.data)
    return PlacedSession(written.new.id, file)


def _codex(_client: Client, written: _Written, here: ClientHome) -> PlacedSession:
    new = written.new
    day, time = new.time[:10].split("-"), new.time[:19].replace(":", "-")
    folder = here.folder("CODEX_HOME", ".codex").joinpath("sessions", *day)
    file = folder / f"rollout-{time}-{new.id}.jsonl"
    make(file, written.data)
    return PlacedSession(new.id, file)


def _pi(_client: Client, written: _Written, here: ClientHome) -> PlacedSession:
    new = written.new
    sessions = here.folder("PI_CODING_AGENT_DIR", ".pi/agent") / "sessions" / pi_name(new.folder)
    folder = here.folder("PI_CODING_AGENT_SESSION_DIR", str(sessions))
    file = folder / f"{re.sub('[:.]', '-', new.time)}_{new.id}.jsonl"
    make(file, written.data)
    return PlacedSession(str(file), file)  # by its path: an id is looked for in some folders only


def _gemini(_client: Client, written: _Written, here: ClientHome) -> PlacedSession:
    new = written.new
    home = here.folder("GEMINI_CLI_HOME", "") / ".gemini"
    minute = new.time[:16].replace(":", "-")
    chats = home / "tmp" / gemini_name(home, new.folder) / "chats"
    file = chats / f"session-{minute}-{new.id[:8]}.jsonl"
    make(file, written.data)
    return PlacedSession(new.id, file)


def _opencode(client: Client, written: _Written, here: ClientHome) -> PlacedSession:
    with TemporaryDirectory(prefix="harken-") as folder:
        file = Path(folder) / "session.json"
        make(file, written.data)
        command, environ = [client.program, "import", str(file)], dict(here.environ)
        try:
            done = subprocess.run(
                command,
                cwd=written.new.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=IMPORT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(
                f"{client.name} did not import the session in {IMPORT_TIMEOUT_S} s"
            ) from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())
        raise ConfigError(f"{client.name} does not import the session: {said[-300:]}")
    return PlacedSession(written.session, None)


_PLACES: dict[str, Callable[[Client, _Written, ClientHome], PlacedSession]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "pi": _pi,
}
