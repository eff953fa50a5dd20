"""Every error that Harken raises on purpose, in one tree.

    HarkenError
    ├── LogError                    a failure of one session log
    │   ├── LogNotFound             the file does not exist
    │   ├── InvalidLog              the file is not a session log: empty, binary, a folder
    │   ├── LogCorrupted            a line does not verify (file, line, byte)
    │   ├── LogVersionUnsupported   written with a newer or an unreleased schema version
    │   ├── LogReadOnly             an older dialect: readable, but not continued
    │   ├── LogLocked               another process writes it (its pid)
    │   ├── SessionClosed           a call on a session that the program has closed
    │   ├── LogDiverged             received lines do not continue the log
    │   └── LogWriteError           a write or sync failed
    │       └── LogDeleted          the file was deleted while a session wrote it
    ├── StoreError                  a failure of one store
    │   ├── InvalidStore            the file is not a store
    │   ├── StoreVersionUnsupported written with another format version
    │   ├── StoreLocked             the timeout for the store's lock expired
    │   ├── StoreUnavailable        the service of a remote store does not respond
    │   ├── StoreWriteError         a write failed: nothing of the batch was written
    │   ├── PurgeIncomplete         purged bytes may still be stored
    │   ├── ObjectNotFound          a referenced object does not exist
    │   ├── ObjectCorrupted         the bytes of an object do not match its name
    │   ├── ObjectTooLarge          an object exceeds the size limit
    │   ├── ArtifactNotMessages     an artifact is raw bytes, not messages
    │   ├── NotesConflict           the notes of a commit were changed concurrently
    │   └── BranchConflict          a branch was moved by another writer
    ├── SendError                   sending to another machine failed
    ├── BundleError                 a bundle cannot be created or used
    ├── TicketError                 a change of a ticket is refused
    ├── InvalidEvent                an event violates an invariant of the log
    ├── NameNotFound                a name or id does not exist (lists existing names)
    │   ├── AmbiguousName           a prefix matches several names (lists them)
    │   └── NotBorn                 an agent's birth is not logged yet
    ├── ConfigError                 a configuration file or option is invalid
    ├── FormatError                 bytes are not valid in their format
    ├── ModelError                  a model call failed
    │   ├── ScriptError             no rule of a scripted model matches, or an invalid script
    │   └── ReplayMiss              the recorded session has no such request
    ├── AgentBusy                   an agent was addressed during its turn
    ├── TurnStopped                 a turn ended without an answer (kind, text)
    └── BudgetExceeded              an agent has exhausted its budget

A mistake of a *model* (an unknown tool, bad arguments) is not an exception: it becomes a tool
result that the model reads. An error text states the failure, its location and the fix, in a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class HarkenError(Exception):
    """The base class of all errors that Harken raises on purpose. Its text is one line."""


class LogError(HarkenError):
    """A failure of one session log."""

    def __init__(self, file: str | Path, text: str) -> None:
        super().__init__(f"{file}: {text}")
        self.file = str(file)


class LogNotFound(LogError):
    """There is no file at this path."""

    def __init__(self, file: str | Path) -> None:
        super().__init__(file, "session log not found; `harken sessions` lists sessions")


class InvalidLog(LogError):
    """The path is not a session log."""


class LogCorrupted(LogError):
    """A line inside the log does not verify. `line` counts from 1, `byte` from 0."""

    def __init__(self, file: str | Path, *, line: int, byte: int, reason: str) -> None:
        super().__init__(
            file,
            f"corrupted at line {line}, byte {byte}: {reason}; nothing was changed; "
            "`harken sessions check` lists all damage, `harken sessions repair` "
            "writes the intact events to a new log",
        )
        self.line, self.byte, self.reason = line, byte, reason


class LogVersionUnsupported(LogError):
    """The log was written with a newer schema version, or with one that was never released."""

    def __init__(self, file: str | Path, *, found: int, known: int) -> None:
        note = (
            f"(this Harken supports up to {known}); upgrade Harken"
            if found > known
            else "(written by a development version of Harken; no release wrote it)"
        )
        super().__init__(file, f"schema version {found} is not supported {note}")
        self.found, self.known = found, known


class LogReadOnly(LogError):
    """The log has an older dialect: it can be read, but not continued."""

    def __init__(self, file: str | Path, *, dialect: str) -> None:
        super().__init__(
            file,
            f"the older log format {dialect} is read-only; `harken sessions repair "
            f"{file} --out NEW` converts it",
        )
        self.dialect = dialect


class LogLocked(LogError):
    """Another process holds the log's lock. `pid` is None if the process is unknown."""

    def __init__(self, file: str | Path, *, pid: int | None) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            file, f"locked by {holder}, which writes it; end that process, or use `harken view`"
        )
        self.pid = pid


class SessionClosed(LogError):
    """A closed session was used; nothing was written."""

    def __init__(self, file: str | Path) -> None:
        super().__init__(
            file,
            "the session is closed; nothing was written; use it inside its `with` "
            "block, or open it again with load_session()",
        )


class LogDiverged(LogError):
    """Received lines do not continue the end of the log."""


class LogWriteError(LogError):
    """A write or sync failed. The event may be on disk, and the session accepts no more events."""

    def __init__(self, file: str | Path, *, reason: str, advice: str = "") -> None:
        advice = advice or "free disk space or repair the disk, then resume the session"
        safe = "all acknowledged events are safe"
        super().__init__(file, f"write failed: {reason}; {safe}; {advice}")
        self.reason = reason


class CredentialInLog(LogError):
    """A log has a credential, and no credential is stored here: nothing was written."""

    def __init__(self, file: str | Path, *, kind: str, is_in_name: bool = False) -> None:
        subject = "its name contains" if is_in_name else "contains"
        cure = (
            "rename the log"
            if is_in_name
            else "remove the credential with `harken store purge`, or send the log in a bundle "
            "or a push, which redact it"
        )
        super().__init__(
            file,
            f"{subject} a credential ({kind}) and was not written: the configuration has "
            f'redact = "store"; {cure}',
        )
        self.kind, self.is_in_name = kind, is_in_name


class LogDeleted(LogWriteError):
    """The file was deleted while a session wrote it; its events are lost."""

    def __init__(self, file: str | Path) -> None:
        LogError.__init__(
            self,
            file,
            "deleted while this session wrote it; its messages are lost, except "
            "committed ones (`harken ctx log` lists commits); start a new session",
        )
        self.reason = "the file was deleted"


class StoreError(HarkenError):
    """A failure of one store. `store` is its path or address."""

    def __init__(self, store: str | Path, text: str) -> None:
        super().__init__(f"{store}: {text}")
        self.store = str(store)


class InvalidStore(StoreError):
    """The path is not a store; it was not changed."""


class StoreVersionUnsupported(StoreError):
    """The store was written with a newer format version, or with one from before a release."""

    def __init__(self, store: str | Path, *, found: int, known: int) -> None:
        advice = (
            "upgrade Harken"
            if found > known
            else "no release of Harken reads it, and it was not changed: use another store"
        )
        super().__init__(
            store,
            f"format version {found} is not supported (this Harken supports up to "
            f"{known}); {advice}",
        )
        self.found, self.known = found, known


class StoreLocked(StoreError):
    """The timeout for the store's lock expired; nothing was written."""

    def __init__(self, store: str | Path) -> None:
        super().__init__(store, "locked by another process for too long; try again")


class StoreUnavailable(StoreError):
    """The service of a remote store does not respond. A retry may succeed."""


class StoreWriteError(StoreError):
    """A write failed: nothing of the batch was written, and all acknowledged data is safe."""

    def __init__(self, store: str | Path, *, reason: str, advice: str = "") -> None:
        advice = advice or "free disk space or repair the disk, then try again"
        super().__init__(store, f"write failed: {reason}; {advice}")
        self.reason = reason


class CredentialRefused(StoreError):
    """Content has a credential, and this store stores none: nothing was written."""

    def __init__(self, store: str | Path, where: str, *, kind: str) -> None:
        super().__init__(
            store,
            f"{where} contains a credential ({kind}) and was not written: the configuration has "
            'redact = "store"; remove the credential and try again',
        )
        self.where, self.kind = where, kind


class PurgeIncomplete(StoreError):
    """Purged content is no longer readable, but its bytes may still be stored."""

    def __init__(self, store: str | Path, *, reason: str, advice: str = "") -> None:
        advice = advice or (
            "end the processes that use the store, or free disk space, then purge again"
        )
        super().__init__(
            store,
            f"the purged content was replaced, but its bytes may still be stored: {reason}; "
            f"{advice}",
        )
        self.reason = reason


class ObjectNotFound(StoreError):
    """A referenced object does not exist. `needed_by`: the object that refers to it, if known."""

    def __init__(self, store: str | Path, name: str, *, needed_by: str = "") -> None:
        reason = f", which {needed_by} names," if needed_by else ""
        super().__init__(store, f"{name}{reason} not found")
        self.name, self.needed_by = name, needed_by


class ObjectCorrupted(StoreError):
    """The bytes of an object do not match its name; nothing was changed."""

    def __init__(self, store: str | Path, name: str, *, reason: str) -> None:
        super().__init__(store, f"{name} is corrupted: {reason}; nothing was changed")
        self.name, self.reason = name, reason


class ObjectTooLarge(StoreError):
    """An object exceeds the size limit of a store; nothing was written."""

    def __init__(self, store: str | Path, name: str, *, size_bytes: int, limit_bytes: int) -> None:
        size_mb, limit_mb = size_bytes / 2**20, limit_bytes / 2**20
        super().__init__(
            store,
            f"{name} is too large: {size_mb:.1f} MB; the maximum of an object is "
            f"{limit_mb:.0f} MB; write the data to a file and name the file in the "
            "message",
        )
        self.name, self.size_bytes, self.limit_bytes = name, size_bytes, limit_bytes


class ArtifactNotMessages(StoreError):
    """An artifact is raw bytes, which only a format can decode into messages."""

    def __init__(self, store: str | Path, name: str) -> None:
        super().__init__(store, f"{name} has raw bytes, not messages; read it with its format")
        self.name = name


class NotesConflict(StoreError):
    """The notes of a commit were changed concurrently; nothing was written."""

    def __init__(self, store: str | Path, name: str) -> None:
        super().__init__(store, f"conflict: the notes of {name} were changed by another process")
        self.name = name


class BranchConflict(StoreError):
    """A branch has another head than the writer expected; it was not moved.

    `commit` is the commit that was written and that the branch does not lead to, if there is one.
    """

    def __init__(
        self,
        store: str | Path,
        branch: str,
        *,
        expected: str | None,
        actual: str | None,
        commit: str = "",
    ) -> None:
        if expected is None:
            reason = f"branch {branch!r} exists already, at {actual}; move it from there, or use"
        else:
            reason = (
                f"conflict: branch {branch!r} is at {actual or 'no commit'}, not at {expected}; "
                "another writer moved it: continue from its head, or use"
            )
        suffix = f"; the commit was written as {commit}" if commit else ""
        super().__init__(store, f"{reason} another name{suffix}")
        self.branch, self.expected, self.actual = branch, expected, actual
        self.commit = commit


class SendError(HarkenError):
    """Sending to another machine failed. `sent`: the amount that it had accepted before."""

    def __init__(self, endpoint: str, reason: str, *, sent: int = 0) -> None:
        super().__init__(f"{endpoint}: {reason}" + (f" (after {sent})" if sent else ""))
        self.endpoint, self.reason, self.sent = endpoint, reason, sent


class TicketError(HarkenError):
    """A change of a ticket is refused; nothing was changed."""

    def __init__(self, ticket: str, reason: str) -> None:
        super().__init__(f"{ticket}: {reason}" if ticket else reason)
        self.ticket, self.reason = ticket, reason


class BundleError(HarkenError):
    """A bundle cannot be created or used; nothing was changed."""

    def __init__(self, file: str | Path, text: str) -> None:
        super().__init__(f"{file}: {' '.join(text.split())}")
        self.file = str(file)


class InvalidEvent(HarkenError, ValueError):
    """An event violates an invariant of the log; nothing was written."""


class NameNotFound(HarkenError, LookupError):
    """A name does not exist; the text lists existing names."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        names = ", ".join(self.known[:12]) + (", ..." if len(self.known) > 12 else "")
        kinds = " or ".join(
            f"{noun}{'es' if noun.endswith(('s', 'ch')) else 's'}" for noun in kind.split(" or ")
        )
        existing = f"; existing {kinds}: {names}" if names else ""
        super().__init__(f"{kind} {name!r} not found{existing}")


class AmbiguousName(NameNotFound):
    """A name matches several objects; the text lists them."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        super().__init__(kind, name, known)
        names = ", ".join(self.known)
        self.args = (f"{kind} {name!r} is ambiguous: {names}; use a longer name",)


class NotBorn(NameNotFound):
    """An agent was used before its `agent_created` event was logged."""

    def __init__(self, agent_id: str, kind: str) -> None:
        super().__init__("agent", agent_id, ())
        text = (
            f"{kind} {agent_id} is not in the log yet: call log_birth(agent, name=...) first, or "
            f"install(agent) for a hook; load_session() returns an agent that is in the log"
        )
        self.args = (text,)


class ConfigError(HarkenError, ValueError):
    """A configuration file or option is invalid."""


class FormatError(HarkenError, ValueError):
    """Bytes are not valid in their format."""

    def __init__(self, format: str, reason: str) -> None:
        super().__init__(f"not valid {format}: {reason}")
        self.format, self.reason = format, reason


Failure: TypeAlias = Literal[
    "auth",  # no key, or a key that the provider rejects
    "unknown_model",
    "rate_limit",
    "overloaded",  # the provider is overloaded, or has an internal error
    "timeout",
    "network",  # no connection, or an interrupted connection
    "context_too_long",
    "refused",  # the provider rejects the request
    "malformed",  # the response cannot be parsed
    "failed",  # anything else
]
"""The kind of a failed model call."""


class ModelError(HarkenError):
    """A model call failed. The session is intact and can be resumed. `why` is the kind."""

    def __init__(self, text: str, *, why: Failure = "failed", status: int | None = None) -> None:
        super().__init__(text)
        self.kind: Failure = why
        self.status = status
        """The HTTP status, if the provider responded."""


class ScriptError(ModelError):
    """A scripted model has no rule for a request, or its script is malformed."""


class ReplayMiss(ModelError):
    """The recorded session has no response to exactly this request."""


class AgentBusy(HarkenError, RuntimeError):
    """An agent was addressed during its turn: wait for its answer."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"{agent} is in a turn: wait for its answer")
        self.agent = agent


StopReason: TypeAlias = Literal["budget", "denials", "hook", "moved"]
"""Why a turn has no answer: a budget was spent; hooks denied too many answers; a hook ended the
turn; another agent took the agent's place and answers now."""


class TurnStopped(HarkenError):
    """A turn ended without an answer. The text stands in its place in the log."""

    def __init__(self, text: str, kind: StopReason, message_id: str | None) -> None:
        super().__init__(text)
        self.kind = kind
        """Why it ended; never `moved`."""
        self.message_id = message_id
        """The id of the text that other agents read in place of an answer."""

    def __reduce__(self) -> tuple[object, ...]:
        """Keep all values in copies and pickles."""
        return type(self), (str(self), self.kind, self.message_id)


class BudgetExceeded(HarkenError):
    """An agent has exhausted its budget; the text names the limit and the usage."""
