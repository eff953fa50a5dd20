"""Errors of the service API: the exceptions of the service, encoded for the client.

An error consists of a code, a line for a person and the fields of the original exception, so the
client raises the same exception, with the address of the service in place of the file.

Source: docs/formats/service.md, "Errors".
"""

from __future__ import annotations

from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from harken.errors import (
    AmbiguousName,
    BranchConflict,
    CredentialRefused,
    HarkenError,
    LogDiverged,
    LogError,
    LogLocked,
    LogVersionUnsupported,
    LogWriteError,
    NameNotFound,
    NotesConflict,
    ObjectCorrupted,
    ObjectNotFound,
    ObjectTooLarge,
    StoreError,
    StoreLocked,
    StoreWriteError,
)
from harken.store.batch import BATCH

Code: TypeAlias = Literal[
    "unauthorized",
    "forbidden",
    "read_only",
    "not_found",
    "unknown_name",
    "object_missing",
    "method_not_allowed",
    "too_slow",
    "ambiguous_name",
    "store_locked",
    "notes_changed",
    "branch_moved",
    "log_differs",
    "log_locked",
    "too_large",
    "unsupported_media",
    "quota_exceeded",
    "invalid",
    "batch_damaged",
    "object_damaged",
    "internal",
    "busy",
    "store_failed",
    "store_full",
]
STATUS: dict[Code, int] = {
    "unauthorized": 401,  # The token is missing or wrong.
    "forbidden": 403,  # The request comes from a browser, or names another host.
    "read_only": 403,
    "not_found": 404,  # The path does not exist.
    "unknown_name": 404,
    "object_missing": 404,
    "method_not_allowed": 405,
    "too_slow": 408,  # The body did not arrive in time.
    "ambiguous_name": 409,
    "store_locked": 409,
    "notes_changed": 409,
    "branch_moved": 409,
    "log_differs": 409,  # The lines do not continue the log.
    "log_locked": 409,  # Another program writes the log.
    "too_large": 413,
    "unsupported_media": 415,  # The body is neither JSON nor MessagePack, or it is compressed.
    "quota_exceeded": 429,  # The user has written too much in this period.
    "invalid": 422,
    "batch_damaged": 422,  # A name in the batch does not match its content.
    "object_damaged": 500,  # A stored object does not match its name.
    "internal": 500,  # A bug in the service.
    "busy": 503,  # The service has too many requests: retry.
    "store_failed": 503,
    "store_full": 507,  # The disk refused the write.
}
_MAX_CHARS = 1000


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error of the API. Members without a value are omitted."""

    code: Code
    message: str
    """One line for a person."""
    kind: str = ""
    """The kind of the name that does not exist."""
    name: str = ""
    needed_by: str = ""
    reason: str = ""
    known: tuple[str, ...] = ()
    """Names that exist."""

    @property
    def status(self) -> int:
        """The HTTP status of this error code."""
        return STATUS[self.code]


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: Problem


class ContentRefused(StoreError):
    """The service does not accept a request of this sender, or of this size."""


REFUSALS = (ContentRefused, CredentialRefused, NameNotFound, ObjectNotFound, ValueError)
"""What a client gets from a service that does not accept some content: other content may pass."""


class RequestRefused(HarkenError):
    """The service refuses the request. The text gives the reason."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code: Code = code


def encode_error(error: Exception) -> Problem:
    """Convert an exception to its wire form: one line, without paths of the service.

    An exception that is not a Harken error is a bug: of it, only the type is reported.
    """
    text = _format_line(error)
    match error:
        case RequestRefused():
            return Problem(error.code, text)
        case AmbiguousName():
            return Problem(
                "ambiguous_name", text, error.kind, error.name, known=_sample_names(error)
            )
        case NameNotFound():
            return Problem("unknown_name", text, error.kind, error.name, known=_sample_names(error))
        case ObjectNotFound():
            return Problem("object_missing", text, name=error.name, needed_by=error.needed_by)
        case ObjectCorrupted():
            code: Code = "batch_damaged" if error.store == BATCH else "object_damaged"
            return Problem(code, text, name=error.name, reason=error.reason)
        case ObjectTooLarge():
            return Problem("too_large", text, name=error.name)
        case StoreLocked():
            return Problem("store_locked", text)
        case LogLocked():
            return Problem("log_locked", "this log is being written by another program there")
        case LogDiverged():
            return Problem("log_differs", text)
        case NotesConflict() | BranchConflict():
            return _encode_conflict(error, text)
        case StoreWriteError() | LogWriteError():
            return Problem("store_full", text, reason=error.reason)
        case ValueError() | OverflowError() | LogVersionUnsupported() | CredentialRefused():
            return Problem("invalid", text)
        case StoreError() | LogError():
            return Problem("store_failed", text)
        case RecursionError():
            return Problem("invalid", "it is nested too deeply")
        case _:
            return Problem("internal", f"a bug in the service ({type(error).__name__})")


def decode_error(problem: Problem, store: str) -> Exception:
    """Convert a problem to the original exception, as raised by the store at this address."""
    match problem.code:
        case "unknown_name":
            return NameNotFound(problem.kind, problem.name, problem.known)
        case "ambiguous_name":
            return AmbiguousName(problem.kind, problem.name, problem.known)
        case "object_missing":
            return ObjectNotFound(store, problem.name, needed_by=problem.needed_by)
        case "object_damaged" | "batch_damaged":
            return ObjectCorrupted(store, problem.name, reason=problem.reason)
        case "store_locked":
            return StoreLocked(store)
        case "notes_changed":
            return NotesConflict(store, problem.name)
        case "branch_moved":
            expected, actual, commit = (*problem.known, "", "", "")[:3]
            heads = {"expected": expected or None, "actual": actual or None}
            return BranchConflict(store, problem.name, **heads, commit=commit)
        case "store_full":
            return StoreWriteError(store, reason=problem.reason)
        case "invalid":
            return ValueError(f"{store}: {problem.message}")
        case "log_differs" | "log_locked":
            return LogError(store, problem.message)
        case "not_found":
            text = "does not know this request: is its Harken older than this one?"
            return StoreError(store, text)
        case "forbidden" | "read_only" | "quota_exceeded" | "too_large":
            return ContentRefused(store, problem.message)
        case "unauthorized":
            return StoreError(store, "rejects this token: pass the token of this service")
        case _:
            return StoreError(store, problem.message)


def _encode_conflict(error: NotesConflict | BranchConflict, text: str) -> Problem:
    if isinstance(error, NotesConflict):
        return Problem("notes_changed", text, name=error.name)
    names = (error.expected or "", error.actual or "", error.commit)
    return Problem("branch_moved", text, name=error.branch, known=names)


def _format_line(error: Exception) -> str:
    text = str(error)
    if isinstance(error, StoreError):
        text = text.removeprefix(f"{error.store}: ")
    elif isinstance(error, LogError):
        text = text.removeprefix(f"{error.file}: ")
    return " ".join(text.split())[:_MAX_CHARS]


def _sample_names(error: NameNotFound) -> tuple[str, ...]:
    return tuple(islice(error.known, 13))
