"""Place a written session where its client finds it.

Each client has a rule for the location of a folder's sessions, and a new session has a new id. So
files are only created, never overwritten. Missing folders are created.

Source: docs/how-to/resume-in-another-client.md, "Session files". Rules observed in the clients.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from harken.capture.resume.clients import Client
from harken.capture.resume.session_folders import claude_name, create_file, gemini_name, pi_name
from harken.errors import ConfigError, FormatError
from harken.formats.runtimes.base import NewSessionInfo, ReadReport, RuntimeFormat, SessionFile

IMPORT_TIMEOUT_S = 120


class ClientHome(msgspec.Struct, frozen=True, kw_only=True):
    """The home and the environment of a client: the user's, or temporary ones."""

    home: Path
    environ: Mapping[str, str]

    def folder(self, variable: str, default: str) -> Path:
        """Return the folder that a variable names, else the default below the home."""
        value = self.environ.get(variable, "").strip()
        if value == "~" or value.startswith("~/"):
            return self.home / value[2:]
        return Path(value) if value else self.home / default


class PlacedSession(msgspec.Struct, frozen=True):
    """A session that its client can resume."""

    session: str
    """The argument with which the client resumes it."""
    file: Path | None
    """None if it is in a database of the client."""


def place_session(
    client: Client, native: RuntimeFormat, data: bytes, new: NewSessionInfo, here: ClientHome
) -> PlacedSession:
    """Place a session where its client finds it. Raises ConfigError if that fails."""
    try:
        return _PLACE_FUNCTIONS[client.runtime](client, _WrittenSession(native, data, new), here)
    except OSError as error:
        where = error.filename or here.home
        raise ConfigError(
            f"{where}: the session for {client.name} cannot be put there "
            f"({error.strerror or error}); nothing was overwritten"
        ) from None


class _WrittenSession(msgspec.Struct, frozen=True):
    native: RuntimeFormat
    data: bytes
    new: NewSessionInfo

    @property
    def session(self) -> str:
        """The session id in the written data."""
        reading = ReadReport()
        with suppress(FormatError):
            for _ in self.native.steps(SessionFile("new session", lambda: [self.data]), reading):
                pass
        return reading.session_id or self.new.id


def _place_claude(_client: Client, session: _WrittenSession, home: ClientHome) -> PlacedSession:
    folder = home.folder("CLAUDE_CONFIG_DIR", ".claude") / "projects"
    file = folder / claude_name(session.new.folder) / f"{session.new.id}.jsonl"
    create_file(file, session.data)
    return PlacedSession(session.new.id, file)


def _place_codex(_client: Client, session: _WrittenSession, home: ClientHome) -> PlacedSession:
    new = session.new
    day, time = new.time[:10].split("-"), new.time[:19].replace(":", "-")
    folder = home.folder("CODEX_HOME", ".codex").joinpath("sessions", *day)
    file = folder / f"rollout-{time}-{new.id}.jsonl"
    create_file(file, session.data)
    return PlacedSession(new.id, file)


def _place_pi(_client: Client, session: _WrittenSession, home: ClientHome) -> PlacedSession:
    new = session.new
    sessions = home.folder("PI_CODING_AGENT_DIR", ".pi/agent") / "sessions" / pi_name(new.folder)
    folder = home.folder("PI_CODING_AGENT_SESSION_DIR", str(sessions))
    file = folder / f"{re.sub('[:.]', '-', new.time)}_{new.id}.jsonl"
    create_file(file, session.data)
    return PlacedSession(str(file), file)  # Pi finds a session id only in some folders.


def _place_gemini(_client: Client, session: _WrittenSession, here: ClientHome) -> PlacedSession:
    new = session.new
    home = here.folder("GEMINI_CLI_HOME", "") / ".gemini"
    minute = new.time[:16].replace(":", "-")
    chats = home / "tmp" / gemini_name(home, new.folder) / "chats"
    file = chats / f"session-{minute}-{new.id[:8]}.jsonl"
    create_file(file, session.data)
    return PlacedSession(new.id, file)


def _place_opencode(client: Client, session: _WrittenSession, home: ClientHome) -> PlacedSession:
    with TemporaryDirectory(prefix="harken-") as folder:
        file = Path(folder) / "session.json"
        create_file(file, session.data)
        command, environ = [client.program, "import", str(file)], dict(home.environ)
        try:
            process = subprocess.run(
                command,
                cwd=session.new.folder,
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
    if process.returncode != 0:
        output = " ".join((process.stderr or process.stdout).decode("utf-8", "replace").split())
        raise ConfigError(f"{client.name} does not import the session: {output[-300:]}")
    return PlacedSession(session.session, None)


_PLACE_FUNCTIONS: dict[str, Callable[[Client, _WrittenSession, ClientHome], PlacedSession]] = {
    "claude": _place_claude,
    "codex": _place_codex,
    "gemini": _place_gemini,
    "opencode": _place_opencode,
    "pi": _place_pi,
}
