"""Tokens, names and scopes."""

from __future__ import annotations

import pytest

from harken.core import structs
from harken.errors import ConfigError
from harken.teams.scopes import (
    CommitFacts,
    CommitScope,
    Grant,
    Rights,
    check_project,
    check_user_name,
    parse_scope,
)
from harken.teams.tokens import create_token, find_fault, hash_token, is_token


def test_tokens_are_long_and_differ() -> None:
    tokens = {create_token("ann", "x", now_us=0)[0] for _ in range(100)}
    assert len(tokens) == 100
    assert all(is_token(token) and len(token) == 47 for token in tokens)


def test_a_record_accepts_its_token_until_the_end() -> None:
    token, record = create_token("ann", "x", now_us=1_000_000, lifetime_s=2)
    assert find_fault(record, token, 2_999_999) == ""
    assert find_fault(record, token, 3_000_000) == "expired"
    assert find_fault(structs.replace(record, revoked_at="now"), token, 2_000_000) == "revoked"
    assert find_fault(record, token + "x", 2_000_000) == "unknown"
    assert find_fault(None, token, 0) == "unknown"


def test_the_hash_is_no_token() -> None:
    """A copy of the directory gives no access."""
    token, record = create_token("ann", "x", now_us=0)
    assert not is_token(record.digest)
    assert find_fault(record, record.digest, 0) == "unknown"
    assert hash_token(record.digest) != record.digest
    assert token not in repr(record)


@pytest.mark.parametrize("name", ["ann", "a", "ann-2.b_c", "0" * 64])
def test_names_of_users(name: str) -> None:
    assert check_user_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "Ann", "ann/sub", "ann~x", "../ann", ".ann", "-ann", "ann b", "ann\n", "änn", "аnn", "a\0",
     "0" * 65, "ann@x", "ANN"],
)  # fmt: skip
def test_other_texts_are_no_names_of_users(name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a user"):
        check_user_name(name)


@pytest.mark.parametrize("name", ["cafe", "Café", "プロジェクト", "a.b-c_d", "x" * 100])
def test_names_of_projects(name: str) -> None:
    assert check_project(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../cafe", "a/b", "a\\b", "a b", "a\n", "a\0", "-a", "cafe\u0301", "ﬁle", "a,b",
     "a:b", "ｃafe", "a\u200b", "a\u202eb", "\ud800", "x" * 101],
)  # fmt: skip
def test_other_texts_are_no_names_of_projects(name: str) -> None:
    """Among them are names that look like another one: decomposed, wide, with ligatures."""
    with pytest.raises(ConfigError, match="is not the name of a project"):
        check_project(name)


def test_scopes_are_parsed_and_printed() -> None:
    for text in ("*", "project:cafe", "principal:ann,project:cafe,label:public"):
        assert str(parse_scope(text)) == text
    for text in ("", "cafe", "project:", "project:a,project:b", "projct:a", "project:a b", "*,*"):
        with pytest.raises(ConfigError):
            parse_scope(text)


def test_a_scope_covers_commits_with_all_its_members() -> None:
    facts = CommitFacts("ann/helper", ("project:cafe", "public"))
    for text in ("*", "principal:ann", "project:cafe", "label:public", "project:cafe,label:public"):
        assert parse_scope(text).covers(facts), text
    for text in ("principal:an", "principal:helper", "project:caf", "label:publi",
                 "principal:ben,project:cafe", "label:Public", "label:cafe"):  # fmt: skip
        assert not parse_scope(text).covers(facts), text


def test_rights_that_include_reading() -> None:
    cafe = CommitScope(project="cafe")
    for right in ("read", "write", "copy", "purge"):
        assert Rights((Grant(right, cafe),)).scopes("read") == (cafe,)
    assert Rights((Grant("admin", cafe),)).scopes("read") == ()
    assert not Rights((Grant("read", cafe),)).has("write")


def test_a_token_has_no_right_that_its_user_lacks() -> None:
    cafe, park = CommitScope(project="cafe"), CommitScope(project="park")
    rights = Rights((Grant("write", cafe), Grant("read", park)))
    assert rights.only(("read",)).scopes("read") == (park, cafe)
    assert not rights.only(("read",)).has("write")
    assert rights.only(("purge", "admin")) == Rights()
    assert rights.only(("write",)).scopes("write") == (cafe,)
