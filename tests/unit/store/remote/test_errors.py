"""Errors are transferred with their type and details."""

from __future__ import annotations

import pytest

from harken.core import canonical
from harken.errors import (
    AmbiguousName,
    LogError,
    NameNotFound,
    NotesConflict,
    ObjectCorrupted,
    ObjectNotFound,
    StoreError,
    StoreLocked,
    StoreWriteError,
)
from harken.store.batch import BATCH
from harken.store.remote.errors import STATUS, ErrorBody, RequestRefused, decode_error, encode_error
from harken.store.remote.wire import read_json

HERE, THERE = "http://127.0.0.1:8420", "/home/iree/.harken/store.db"
ERRORS = [
    (NameNotFound("commit", "ctx-\ud800", ["ctx-1", "ctx-2"]), 404),
    (AmbiguousName("commit", "ctx-1", ["ctx-11", "ctx-12"]), 409),
    (ObjectNotFound(THERE, "art-1", needed_by="ctx-1"), 404),
    (ObjectNotFound(THERE, "art-1"), 404),
    (ObjectCorrupted(THERE, "art-1", reason="its sum is another"), 500),
    (ObjectCorrupted(BATCH, "art-1", reason="it is no delta"), 422),
    (StoreLocked(THERE), 409),
    (NotesConflict(THERE, "ctx-1"), 409),
    (StoreWriteError(THERE, reason="database or disk is full"), 507),
    (StoreError(THERE, "is closed"), 503),
]


@pytest.mark.parametrize(("error", "status"), ERRORS)
def test_error_is_raised_again_with_its_details_and_address(error: Exception, status: int) -> None:
    problem = encode_error(error)
    assert problem.status == status
    assert THERE not in problem.message
    decoded = decode_error(
        read_json(canonical.to_json_line(ErrorBody(problem)), ErrorBody).error, HERE
    )
    assert type(decoded) is type(error)
    place = {"store": HERE} if isinstance(error, StoreError) else {}
    assert vars(decoded) == {**vars(error), **place}
    assert str(decoded).removeprefix(f"{HERE}: ") == problem.message


def test_invalid_argument_is_a_value_error_of_the_client() -> None:
    problem = encode_error(ValueError("'yesterday' is no time"))
    assert (problem.code, problem.status) == ("invalid", 422)
    assert isinstance(decode_error(problem, HERE), ValueError)
    assert encode_error(RecursionError()).code == encode_error(OverflowError("x")).code == "invalid"


def test_internal_error_reveals_only_its_type() -> None:
    problem = encode_error(KeyError("/secret/path"))
    assert (problem.code, problem.status) == ("internal", 500)
    assert "secret" not in problem.message
    assert "KeyError" in problem.message
    assert type(decode_error(problem, HERE)) is StoreError


def test_every_code_has_a_status_and_an_exception() -> None:
    for code, status in STATUS.items():
        assert 400 <= status < 600
        decoded = decode_error(encode_error(RequestRefused(code, "so it is")), HERE)
        assert isinstance(decoded, (StoreError, LogError, NameNotFound, ValueError))


def test_message_is_one_bounded_line() -> None:
    message = encode_error(ValueError("a\nb\r\n\tc " + "x" * 10**6)).message
    assert message.startswith("a b c xxx")
    assert len(message) <= 1000
    names = (f"ctx-{n}" for n in range(10**4))
    assert len(encode_error(NameNotFound("commit", "x", names)).known) <= 13
