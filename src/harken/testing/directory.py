"""Conformance tests of team directories: the contract is `harken.teams.directory.TeamDirectory`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Barrier, Thread
from typing import Any

from harken.core import structs
from harken.core.commits import CommitId
from harken.errors import ConfigError, NameNotFound
from harken.teams.directory import (
    Quota,
    QuotaUsage,
    RetentionRule,
    TeamDirectory,
    TeamUser,
    TokenRecord,
)
from harken.teams.scopes import CommitScope, Grant
from harken.testing.store_kit import refused

WHEN = "2026-01-01T00:00:00.000000Z"
LATER = "2026-01-02T00:00:00.000000Z"
_WRITERS = 8
_WRITES = 5


def user_of(name: str, **members: Any) -> TeamUser:
    """Return a user with a right."""
    members.setdefault("grants", (Grant("read", CommitScope(project="cafe")),))
    return TeamUser(name, WHEN, **members)


def token_of(user: str, number: int, **members: Any) -> TokenRecord:
    """Return the record of a token, which differs by its number."""
    digest = f"{number:064x}"
    return TokenRecord(f"id{number}", user, f"name{number}", digest, WHEN, **members)


class DirectorySuite:
    """The tests of a directory. Inherit from it in a class `Test...`, and override `directory`."""

    def directory(self) -> TeamDirectory:
        """Return a new empty directory."""
        raise NotImplementedError

    def reopen(self, directory: TeamDirectory) -> TeamDirectory:
        """Return another object for the same directory, as another process has."""
        raise NotImplementedError

    def test_users_are_kept(self) -> None:
        directory = self.directory()
        ben = user_of("ben", project="cafe", quota=Quota(10, 2, 60))
        directory.add_user(ben)
        directory.add_user(user_of("ann"))
        for reader in (directory, self.reopen(directory)):
            assert [user.name for user in reader.users()] == ["ann", "ben"]
            assert reader.find_user("ben") == ben
            assert reader.find_user("cem") is None
            assert reader.find_user("Ben") is None

    def test_a_name_is_taken_for_ever(self) -> None:
        directory = self.directory()
        directory.add_user(user_of("ann"))
        refused(ConfigError, directory.add_user, user_of("ann"))
        directory.remove_user("ann", WHEN)
        refused(ConfigError, directory.add_user, user_of("ann"))
        refused(NameNotFound, directory.remove_user, "ann", WHEN)
        refused(NameNotFound, directory.change_user, user_of("ann"))
        assert directory.users() == []

    def test_changed_rights_are_seen_at_once(self) -> None:
        directory = self.directory()
        other = self.reopen(directory)
        directory.add_user(user_of("ann"))
        assert other.find_user("ann") == user_of("ann")
        directory.change_user(user_of("ann", grants=()))
        assert other.find_user("ann") == user_of("ann", grants=())

    def test_tokens_are_found_by_their_hash_alone(self) -> None:
        directory = self.directory()
        directory.add_user(user_of("ann"))
        directory.add_user(user_of("ben"))
        tokens = [token_of("ann", 1, expires_at=LATER), token_of("ben", 2, rights=("read",))]
        for token in tokens:
            directory.add_token(token)
        for reader in (directory, self.reopen(directory)):
            assert [reader.find_token(token.digest) for token in tokens] == tokens
            assert reader.find_token("id1") is reader.find_token("0" * 64) is None
            assert reader.tokens() == tokens
            assert reader.tokens("ben") == tokens[1:]
            assert reader.tokens("cem") == []

    def test_a_token_needs_a_user_and_a_name_of_its_own(self) -> None:
        directory = self.directory()
        refused(NameNotFound, directory.add_token, token_of("ann", 1))
        directory.add_user(user_of("ann"))
        directory.add_token(token_of("ann", 1))
        again = structs.replace(token_of("ann", 2), name="name1")
        refused(ConfigError, directory.add_token, again)
        directory.revoke_token("id1", WHEN)
        directory.add_token(again)

    def test_a_revoked_token_stays_revoked(self) -> None:
        directory = self.directory()
        other = self.reopen(directory)
        directory.add_user(user_of("ann"))
        directory.add_token(token_of("ann", 1))
        assert directory.revoke_token("id1", WHEN).revoked_at == WHEN
        for reader in (directory, other):
            assert reader.revoke_token("id1", LATER).revoked_at == WHEN
            token = reader.find_token(token_of("ann", 1).digest)
            assert token is not None
            assert token.revoked_at == WHEN
        refused(NameNotFound, directory.revoke_token, "id2", WHEN)

    def test_tokens_of_a_removed_user_are_not_found(self) -> None:
        directory = self.directory()
        directory.add_user(user_of("ann"))
        directory.add_token(token_of("ann", 1))
        directory.remove_user("ann", WHEN)
        assert directory.find_token(token_of("ann", 1).digest) is None
        assert [token.revoked_at for token in directory.tokens()] == [WHEN]
        refused(NameNotFound, directory.add_token, token_of("ann", 2))

    def test_rules_are_kept(self) -> None:
        directory = self.directory()
        scope = CommitScope(project="café", label="a b, c")
        rules = [
            RetentionRule("a", "expire", scope, 10),
            RetentionRule("b", "hold", commit=CommitId("ctx-" + "0" * 64), reason="case 7"),
        ]
        for rule in reversed(rules):
            directory.add_rule(rule)
        refused(ConfigError, directory.add_rule, rules[0])
        assert self.reopen(directory).rules() == rules
        directory.remove_rule("a")
        refused(NameNotFound, directory.remove_rule, "a")
        assert directory.rules() == rules[1:]

    def test_usage_stays_within_the_quota(self) -> None:
        directory = self.directory()
        quota, one = Quota(10, 3), QuotaUsage(4, 1)
        assert [directory.add_usage("ann", 60, one, quota) for _ in range(3)] == [True, True, False]
        assert directory.add_usage("ann", 60, QuotaUsage(2, 1), quota)
        assert not directory.add_usage("ann", 60, QuotaUsage(0, 1), quota)
        assert self.reopen(directory).usage("ann", 60) == QuotaUsage(10, 3)
        assert directory.usage("ben", 60) == QuotaUsage()
        assert directory.add_usage("ben", 60, one, quota)
        assert directory.add_usage("ann", 120, one, quota)
        assert directory.usage("ann", 120) == one

    def test_a_member_without_limit_is_counted(self) -> None:
        directory = self.directory()
        for _ in range(3):
            assert directory.add_usage("ann", 0, QuotaUsage(2**40, 1), Quota())
        assert directory.usage("ann", 0) == QuotaUsage(3 * 2**40, 3)

    def test_concurrent_writers_do_not_exceed_a_quota(self) -> None:
        first = self.directory()
        directories = [first, self.reopen(first)]
        accepted: list[bool] = []
        barrier = Barrier(_WRITERS)

        def write(directory: TeamDirectory) -> None:
            barrier.wait()
            accepted.extend(
                directory.add_usage("ann", 0, QuotaUsage(1, 1), Quota(commits=_WRITERS))
                for _ in range(_WRITES)
            )

        run_all([partial(write, directories[n % 2]) for n in range(_WRITERS)])
        assert len(accepted) == _WRITERS * _WRITES
        assert accepted.count(True) == _WRITERS
        assert first.usage("ann", 0) == QuotaUsage(_WRITERS, _WRITERS)

    def test_a_closed_directory_may_be_closed_again(self) -> None:
        directory = self.directory()
        directory.close()
        directory.close()


def run_all(functions: list[Callable[[], None]]) -> None:
    """Run functions in threads at the same time."""
    threads = [Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
