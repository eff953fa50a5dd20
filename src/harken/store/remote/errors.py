"""Failures on their way over the wire: what the service says is what the caller is raised.

One idea: an error is a code, a line for a person and the facts of the exception that it was; so the
client raises the same exception, with the address of the service in place of the file.

Source: docs/formats/service.md, "Errors".
"""

from __future__ import annotations

from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from harken.errors import (
    AmbiguousName,
    HarkenError,
    LogDiverged,
    LogError,
    LogLocked,
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
    "log_differs",
    "log_locked",
    "too_large",
    "unsupported_media",
    "invalid",
    "batch_damaged",
    "object_damaged",
    "internal",
    "busy",
    "store_failed",
    "store_full",
]
STATUS: dict[Code, int] = {
    "unauthorized": 401,  # no token, or another one
    "forbidden": 403,  # from a browser, or under another host's name
    "read_only": 403,
    "not_found": 404,  # no such path
    "unknown_name": 404,
    "object_missing": 404,
    "method_not_allowed": 405,
    "too_slow": 408,  # the body did not arrive in time
    "ambiguous_name": 409,
    "store_locked": 409,
    "notes_changed": 409,
    "log_differs": 409,  # lines do not go on where a log ends
    "log_locked": 409,  # another program writes it
    "too_large": 413,
    "unsupported_media": 415,  # neither JSON nor MessagePack, or compressed
    "invalid": 422,
    "batch_damaged": 422,  # a name in the batch is not that of its content
    "object_damaged": 500,  # what is stored is not what its name says
    "internal": 500,  # a bug
    "busy": 503,  # too much at once: ask again
    "store_failed": 503,
    "store_full": 507,  # the disk refused
}
_MOST_CHARACTERS = 1000


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong. Members without a value are left out."""

    code: Code
    message: str
    """One line for a person."""
    kind: str = ""
    """Of what there is none of this name."""
    name: str = ""
    needed_by: str = ""
    reason: str = ""
    known: tuple[str, ...] = ()
    """Names that there are."""

    @property
    def status(self) -> int:
        """The HTTP status that goes with it."""
        return STATUS[self.code]


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error: Problem


class RequestRefused(HarkenError):
    """Something that the service does not do for whoever asked; its text says why."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code: Code = code


def problem_of(error: Exception) -> Problem:
    """Return what is said of an exception: one line, and nothing of where the service keeps what.

    One that is none of ours is a bug: of that only its kind is said.
    """
    text = _line(error)
    match error:
        case RequestRefused():
            return Problem(error.code, text)
        case AmbiguousName():
            return Problem("ambiguous_name", text, error.kind, error.name, known=_some(error))
        case NameNotFound():
            return Problem("unknown_name", text, error.kind, error.name, known=_some(error))
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
        case NotesConflict():
            return Problem("notes_changed", text, name=error.name)
        case StoreWriteError() | LogWriteError():
            return Problem("store_full", text, reason=error.reason)
        case StoreError() | LogError():
            return Problem("store_failed", text)
        case ValueError() | OverflowError():
            return Problem("invalid", text)
        case RecursionError():
            return Problem("invalid", "it is nested too deeply")
        case _:
            return Problem("internal", f"a bug in the service ({type(error).__name__})")


def error_of(problem: Problem, store: str) -> Exception:
    """Return the exception that a problem was, as one of the store with this address."""
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
        case "store_full":
            return StoreWriteError(store, reason=problem.reason)
        case "invalid":
            return ValueError(f"{store}: {problem.message}")
        case "log_differs" | "log_locked":
            return LogError(store, problem.message)
        case "not_found":
            text = "does not know what it is asked: is the Harken there older than this one?"
            return StoreError(store, text)
        case "unauthorized":
            return StoreError(store, "does not take this token: give the one of this service")
        case _:
            return StoreError(store, problem.message)


def _line(error: Exception) -> str:
    text = str(error)
    if isinstance(error, StoreError):
        text = text.removeprefix(f"{error.store}: ")
    elif isinstance(error, LogError):
        text = text.removeprefix(f"{error.file}: ")
    return " ".join(text.split())[:_MOST_CHARACTERS]


def _some(error: NameNotFound) -> tuple[str, ...]:
    return tuple(islice(error.known, 13))
