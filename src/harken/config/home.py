"""The home folder: where sessions, the store and indexes are kept.

`HARKEN_HOME`, else `~/.harken`; only its owner can read it.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import click

from harken.errors import ConfigError, LogError
from harken.session.log.compressed import LogStat, stat_log
from harken.session.log.file import is_being_written, new_log
from harken.session.log.listing import stat_logs
from harken.terminal.text import program_name

CONFIG = "config.toml"
"""The configuration of a home, and of a project."""
LATEST = "latest"
"""The name that stands for the session that was written last."""
_MAX_START_BYTES = 64 * 1024
"""A log larger than this holds its first event."""
_MAX_NAMED_LOGS = 3
_ID_CHARS = 32
_HOME_ID_PATTERN = re.compile(r"[0-9a-f]{32}")


class Home:
    """The folder that holds everything Harken keeps for one person."""

    def __init__(self, folder: str | None = None) -> None:
        """Use this folder, else `HARKEN_HOME`, else `~/.harken`. Nothing is created yet."""
        self.is_chosen = folder is not None
        """Whether the folder was given on the command line."""
        path = folder or os.environ.get("HARKEN_HOME") or "~/.harken"
        self.folder = Path(path).expanduser()

    @property
    def sessions_folder(self) -> Path:
        """The folder of the session logs."""
        return self.folder / "sessions"

    @property
    def store_file(self) -> Path:
        """The database of commits and their objects."""
        return self.folder / "store.db"

    @property
    def index_file(self) -> Path:
        """The catalogue of imported sessions and their source files. It can be rebuilt."""
        return self.folder / "index.db"

    @property
    def checkpoints_file(self) -> Path:
        """The file of the checkpoints that agent frameworks write here."""
        return self.folder / "checkpoints.db"

    @property
    def facts_file(self) -> Path:
        """The database of messages and calls, as rows, and of their full-text index."""
        return self.folder / "facts.db"

    @property
    def edits_file(self) -> Path:
        """The database of the edits of agents, by the files that they changed."""
        return self.folder / "edits.db"

    @property
    def token_file(self) -> Path:
        """The file of the access token of this home's service."""
        return self.folder / "service.token"

    @property
    def team_file(self) -> Path:
        """The database of the users, tokens and rules of a team."""
        return self.folder / "team.db"

    @property
    def access_file(self) -> Path:
        """The index of what users may read. It can be rebuilt."""
        return self.folder / "access.db"

    @property
    def audit_file(self) -> Path:
        """The log of what users did."""
        return self.folder / "audit.jsonl"

    @property
    def mcp_token_file(self) -> Path:
        """The file of the access token of this home's MCP server, which can run agents, too."""
        return self.folder / "mcp.token"

    @property
    def logins_file(self) -> Path:
        """The file of the credentials that MCP servers issued at login."""
        return self.folder / "mcp-logins.json"

    @property
    def remotes_folder(self) -> Path:
        """The folder of the named remotes: their addresses, tokens and last known states."""
        return self.folder / "remotes"

    @property
    def run_folder(self) -> Path:
        """The folder of the sockets of running chats."""
        return self.folder / "run"

    @property
    def proxy_folder(self) -> Path:
        """The folder of calls that passed through a proxy and are not recorded yet."""
        return self.folder / "proxy"

    @property
    def journal_folder(self) -> Path:
        """The folder of answers of models that batch work has paid for and not yet stored."""
        return self.folder / "journal"

    @property
    def outbox_folder(self) -> Path:
        """The folder that notes which objects remote services have."""
        return self.folder / "outbox"

    def _load_id(self) -> str:
        """Return the random id of this home, which the first call creates.

        It stays when the folder is moved. Raises ConfigError.
        """
        path = self.folder / "home.id"
        try:
            if not path.exists():
                draft = self.folder / f".home.id-{secrets.token_hex(8)}"
                draft.write_text(secrets.token_hex(16), "ascii")
                with suppress(FileExistsError):  # Another process was faster.
                    os.link(draft, path)
                draft.unlink()
            text = path.read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: the id of this home cannot be read: {error}") from None
        if not _HOME_ID_PATTERN.fullmatch(text):
            raise ConfigError(f"{path}: not the id of a home: remove the file")
        return text

    def load_owner_id(self) -> str:
        """Return the id of this home as an owner of agents: 32 hex digits. Raises ConfigError.

        A copy of the folder, or the folder on another machine, has another one: both could run at
        once. It stays when the folder is renamed.
        """
        import platform  # most commands need neither of these

        from blake3 import blake3

        identity = self._load_id()
        try:
            inode = (self.folder / "home.id").stat().st_ino
        except OSError as error:
            raise ConfigError(f"{self.folder}: the home cannot be read: {error}") from None
        text = f"{identity}\n{platform.node()}\n{inode}"
        return blake3(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_CHARS]

    def check_folder(self) -> None:
        """Raise ConfigError if the home is a file or a device."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ConfigError(
                f"{self.folder}: not a folder; choose another home with --home or HARKEN_HOME"
            )

    def create_folders(self) -> None:
        """Create the folders that are missing. Raises ConfigError if that fails."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.sessions_folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{self.folder}: the home folder cannot be created: {error.strerror}; "
                "choose another with --home or HARKEN_HOME"
            ) from None

    def create_log(self, stem: str | None = None) -> Path:
        """Create an empty log: `session_YYYYMMDD_HHMMSS.jsonl`, or one named `stem`.

        Two processes never get the same one. Raises ConfigError, LogWriteError.
        """
        self.create_folders()
        now = datetime.now().astimezone()
        return new_log(self.sessions_folder, stem or now.strftime("session_%Y%m%d_%H%M%S"))

    def list_logs(self) -> list[Path]:
        """Return the logs of all sessions, plain or compressed, the last written first."""
        return [*self.stat_logs()]

    def stat_logs(self) -> dict[Path, LogStat]:
        """Return the stats of the logs of all sessions, the last written first."""
        return stat_logs(self.sessions_folder)

    def started_logs(self) -> Iterator[Path]:
        """Yield the logs that hold an event, the last written first."""
        return (path for path in self.list_logs() if not has_no_event(path))

    def latest_log(self) -> Path:
        """Return the started log that was written last. Raises ConfigError if there is none."""
        path = next(self.started_logs(), None)
        if path is None:
            raise ConfigError(f"{self.sessions_folder}: no sessions; `harken demo` creates one")
        return path


def has_no_event(path: Path) -> bool:
    """Whether the start of a session was cut off before its first event was written."""
    from harken.session.log.reader import is_unstarted  # a third of the import time of a command

    try:
        return stat_log(path).size_bytes <= _MAX_START_BYTES and is_unstarted(path)
    except (LogError, OSError):  # unreadable: the command that uses the log reports why
        return False


def warn_of_unstarted(paths: Iterable[Path]) -> None:
    """Print the logs without an event to stderr. Skip those that are being written."""
    names = [path.name for path in paths if has_no_event(path) and not is_being_written(path)]
    if names:
        suffix = f" and {len(names) - _MAX_NAMED_LOGS} more" if len(names) > _MAX_NAMED_LOGS else ""
        click.echo(
            f"No event in {', '.join(names[:_MAX_NAMED_LOGS])}{suffix}: the start of "
            "the session was interrupted. Nothing is lost; the file can be deleted.",
            err=True,
        )


def current_folder() -> Path:
    """Return the working folder. Raises ConfigError if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError(
            "the working folder was deleted or moved; change to an existing folder "
            '(if it was created again: `cd "$PWD"`)'
        ) from None


def program_line() -> list[str]:
    """Return the command line of this program, for a process that it starts.

    Python modules in the working folder of the process are not imported.
    """
    return [sys.executable, "-P", "-m", "harken"]


def environment() -> Mapping[str, str]:
    """Return the environment that was passed to the running command, else that of the process."""
    context = click.get_current_context(silent=True)
    environ: Mapping[str, str] | None = context.find_root().obj if context is not None else None
    return os.environ if environ is None else environ


HOME_KEY = "harken.home"


def command_prefix(*words: str) -> str:
    """Return the command line of another command of this program, with the same home."""
    return " ".join([program_name(), *map(shlex.quote, [*words, *home_arguments()])])


def home_arguments() -> list[str]:
    """Return the arguments that select the home of this command in another command."""
    context = click.get_current_context(silent=True)
    folder = None if context is None else context.meta.get(HOME_KEY)
    return ["--home", str(folder)] if folder else []
