"""A team on one service: users, tokens, rules and the audit log on the command line."""

from __future__ import annotations

import io
import json
import ssl
import time
from contextlib import AbstractContextManager, closing
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import pytest

from harken.core import structs
from harken.core.commits import CommitId
from harken.errors import StoreError
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.teams.scopes import Grant, parse_scope
from harken.testing.store_kit import batch_of, commit_in
from tests.cli import kit
from tests.cli.kit import Cli
from tests.team_kit import team_service
from tests.tls_kit import write_certificate

SCRIPT = """\
rules:
  - pattern: .*
    answer: Tea at four.
"""


class TeamOnServer:
    """The home of the server, the commands of its owner, and those of members in other homes."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli, self.folder, self.home = cli, folder, folder / "server"
        self.tokens: dict[str, str] = {}
        self.address = ""
        self.model = f"scripted:{folder / 'script.yaml'}"
        (folder / "script.yaml").write_text(SCRIPT)

    def run(self, *arguments: str) -> kit.Ran:
        """Run a command of the owner."""
        self.cli.environ.clear()
        return self.cli.ok(*arguments, "--home", str(self.home))

    def add(self, name: str, *rights: str) -> None:
        self.run("user", "add", name, *rights)
        self.tokens[name] = self.run("token", "create", name, "--json").json["token"]

    def act_as(self, user: str, home: str) -> None:
        """Set the environment of a member."""
        self.cli.environ.clear()
        self.cli.environ.update(
            HARKEN_STORE_TOKEN=self.tokens[user],
            HARKEN_STORE_CA=str(self.folder / "ca.pem"),
            HARKEN_PRINCIPAL=user,
            HARKEN_HOME=str(self.folder / home),
        )

    def chat(self, user: str, home: str, text: str, *options: str) -> kit.Ran:
        """Let a member chat, with commits in the service."""
        self.act_as(user, home)
        where = ("--home", str(self.folder / home), "--store", self.address)
        return self.cli("chat", "--model", self.model, *where, *options, "-p", text)

    def client(self, user: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.tokens[user]}"}
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        return httpx.Client(base_url=self.address, headers=headers, verify=context, trust_env=False)

    def commits(self, user: str) -> list[dict[str, Any]]:
        """The commits that a member sees, newest first."""
        with self.client(user) as client:
            rows: list[dict[str, Any]] = client.get("/v1/commits?limit=100").json()["commits"]
            return rows

    def label(self, user: str, name: str, *labels: str) -> int:
        with self.client(user) as client:
            old = client.get(f"/v1/commits/{name}").json()["labels"]
            body = {"labels": [*old, *labels]}
            return client.patch(f"/v1/commits/{name}", json=body).status_code


@pytest.fixture
def team(cli: Cli, tmp_path: Path) -> TeamOnServer:
    write_certificate(tmp_path, "localhost", "127.0.0.1")
    team = TeamOnServer(cli, tmp_path)
    team.add("ann", "--write", "project:cafe", "--purge", "project:cafe")
    team.add("ben", "--read", "project:cafe", "--write", "project:park", "--max-commits", "3")
    team.add("cem", "--read", "label:public")
    return team


def serving(team: TeamOnServer) -> AbstractContextManager[tuple[Popen[str], str]]:
    tls = ("--tls-cert", team.folder / "cert.pem", "--tls-key", team.folder / "key.pem")
    where = ("--host", "0.0.0.0", "--port", "0")
    return kit.serving("serve", "--home", team.home, *where, *map(str, tls))


@pytest.mark.req("D-07")
def test_three_users_on_one_service_from_two_homes(team: TeamOnServer) -> None:
    """Ann writes project cafe, Ben reads it and writes park, Cem reads what is public."""
    with serving(team) as (_, address):
        team.address = address.replace("0.0.0.0", "localhost")
        assert team.address.startswith("https://localhost:")
        assert team.chat("ann", "home1", "When is tea?").code == 0
        (tea,) = team.commits("ann")
        assert (tea["principal"], tea["labels"]) == ("ann", ["project:cafe"])
        assert [row["id"] for row in team.commits("ben")] == [tea["id"]]
        assert team.commits("cem") == []

        assert team.chat("ben", "home2", "And cake?", "--from-commit", tea["id"][:14]).code == 0
        cake = team.commits("ben")[0]
        assert (cake["principal"], cake["labels"]) == ("ben", ["project:park"])
        assert cake["id"] not in [row["id"] for row in team.commits("ann")]
        assert team.label("ben", tea["id"], "public") == 403
        assert team.label("ann", tea["id"], "public") == 200
        assert [row["id"] for row in team.commits("cem")] == [tea["id"]]
        assert "cem has no right 'write'" in team.chat("cem", "home2", "Hello").err

        for number in range(2):
            assert team.chat("ben", "home2", f"Cake {number}?").code == 0
        assert "quota of ben is used up" in team.chat("ben", "home2", "More?").err

        case = ("case", "--hold", "--label", "public", "--reason", "a dispute")
        team.run("retention", "add", *case)
        with team.client("ann") as client:
            delta = client.get(f"/v1/commits/{tea['id']}").json()["artifact"]
            stone = {"when": "2026-01-01T00:00:00Z", "by": "x", "why": ""}
            purge = {"tombstone": stone, "stand_ins": {delta: []}}
            refused = client.post("/v1/store/purge", json=purge)
            assert (refused.status_code, "legal hold (case)" in refused.text) == (422, True)

        (row,) = team.run("token", "list", "ann", "--json").json
        team.run("token", "revoke", row["id"])
        with team.client("ann") as client:
            assert client.get("/v1/commits").status_code == 401
        assert "rejects this token" in team.chat("ann", "home1", "Still there?").err
        team.run("user", "remove", "cem")
        with team.client("cem") as client:
            assert client.get("/v1/commits").status_code == 401

    check_audit(team, tea["id"], cake["id"])
    kept = SqliteStore(team.home / "store.db")
    assert {c.commit.principal for c in kept.chain(cake["id"])} == {"ann", "ben"}
    kept.close()


def check_audit(team: TeamOnServer, tea: str, cake: str) -> None:
    """Check that the audit log shows all of it, and contains no token and no content."""
    lines = team.run("user", "audit", "--json").out
    records = [json.loads(line) for line in lines.splitlines()]
    outcomes = {(r.get("user"), r["action"], r.get("status"), r.get("code")) for r in records}
    for user, action, status, code in (
        ("ann", "POST /v1/store/write", 200, None),
        ("ben", "POST /v1/store/write", 200, None),
        ("ben", "POST /v1/store/write", 429, "quota_exceeded"),
        ("ben", "PATCH /v1/commits/{ctx}", 403, "forbidden"),
        ("ann", "PATCH /v1/commits/{ctx}", 200, None),
        ("cem", "POST /v1/store/write", 403, "forbidden"),
        ("ann", "POST /v1/store/purge", 422, "invalid"),
        (None, "GET (no route)", 401, "unauthorized"),
    ):
        assert (user, action, status, code) in outcomes, (user, action, status)
    writers = {(r["user"], name) for r in records for name in r.get("names", ())}
    assert {("ann", tea), ("ben", cake)} <= writers
    actions = {record["action"] for record in records if record.get("token") == "local"}
    assert actions >= {"user add", "token create", "token revoke", "user remove",
                       "retention add hold"}  # fmt: skip
    text = (team.home / "audit.jsonl").read_text()
    assert not [token for token in team.tokens.values() if token in text]
    assert "tea" not in text.lower().replace("team", "")


@pytest.mark.req("D-07")
def test_a_running_service_takes_the_first_user(cli: Cli, tmp_path: Path) -> None:
    """Before, only the token of the home is valid; then both are, and requests are recorded."""
    (tmp_path / "script.yaml").write_text(SCRIPT)
    team = TeamOnServer(cli, tmp_path)
    with kit.serving("serve", "--home", team.home, "--port", "0") as (_, address):
        owner = {"authorization": f"Bearer {(team.home / 'service.token').read_text().strip()}"}
        url = f"{address}/v1/commits"
        with httpx.Client(trust_env=False) as client:
            assert client.get(url, headers=owner).status_code == 200
            assert client.get(url, headers={"authorization": "Bearer x"}).status_code == 401
            assert team.run("user", "audit").out == ""
            team.add("ann", "--read", "*")
            ann = {"authorization": f"Bearer {team.tokens['ann']}"}
            until = time.monotonic() + 20
            while client.get(url, headers=ann).status_code == 401 and time.monotonic() < until:
                time.sleep(0.1)
            assert client.get(url, headers=ann).status_code == 200
            assert client.get(url, headers=owner).status_code == 200
            assert client.post(f"{address}/v1/checkpoint", headers=ann).status_code == 403
    audit = team.run("user", "audit").out
    assert f"ann {team.run('token', 'list', 'ann', '--json').json[0]['id']}" in audit
    assert "POST /v1/checkpoint: 403 forbidden" in audit


@pytest.mark.req("D-06", "D-07")
def test_a_push_goes_on_after_refusals(cli: Cli, tmp_path: Path) -> None:
    """Ann may not send Eve's commits: hers arrive, and the others after she gets the right."""
    (tmp_path / "server").mkdir()
    with team_service(tmp_path / "server") as service:
        token = service.add("ann", "write project:cafe")
        cli.environ.update(HARKEN_STORE_TOKEN=token, HARKEN_PRINCIPAL="ann")
        cli.ok("remote", "add", "origin", service.url, "--home", cli.home)
        with closing(SqliteStore(cli.home / "store.db")) as store:
            names: dict[str, CommitId] = {}
            for text, principal, parent in (
                ("tea", "ann", None),
                ("a", "eve", None),
                ("b", "eve", "a"),
                ("c", "ann", "b"),
                ("cake", "ann", "tea"),
            ):
                batch = batch_of(text, parent=names.get(parent or ""), principal=principal)
                store.write(batch)
                names[text] = commit_in(batch)
            store.move_branch("good", names["cake"], expected=None)
            store.move_branch("bad", names["c"], expected=None)

        push = ("push", "--all", "--home", cli.home)
        ran = cli(*push)
        assert ran.code == 2, ran
        lines = ran.err.splitlines()
        assert len(lines) == 5, lines
        assert lines[0].startswith(f"refused: {names['a'][:30]}: ")
        assert "writes as ann" in lines[0]
        for line, name, parent in zip(lines[1:3], ("b", "c"), ("a", "b"), strict=True):
            assert line.startswith(f"refused: {names[name][:30]}: is based on {names[parent]}")
        assert lines[3].startswith("refused: branch bad: ")
        assert lines[4] == "4 refused (see above)"
        assert service.store.newest_commits() == [names["cake"], names["tea"]]
        assert service.store.branches() == {"good": names["cake"]}
        assert cli(*push).err == ran.err  # They are tried again.

        user = service.directory.find_user("ann")
        assert user is not None
        grants = tuple(Grant(right, parse_scope("*")) for right in ("write", "copy"))
        service.directory.change_user(structs.replace(user, grants=grants))
        cli.ok(*push)
        assert {*service.store.newest_commits()} == {*names.values()}
        assert cli.ok(*push).err == ""


def test_an_issuer_that_is_not_trusted_gets_no_token(team: TeamOnServer) -> None:
    with serving(team) as (_, address):
        url = address.replace("0.0.0.0", "localhost")
        store = RemoteStore(url, token=team.tokens["ann"])
        with pytest.raises(StoreError, match="certificate"):
            store.newest_commits()
        ca_file = team.folder / "ca.pem"
        for host, is_valid in (("localhost", True), ("127.0.0.1", True), ("127.0.0.2", False)):
            url = address.replace("0.0.0.0", host)
            store = RemoteStore(url, token=team.tokens["ann"], ca_file=ca_file)
            if is_valid:
                assert store.newest_commits() == []
            else:
                with pytest.raises(StoreError, match="certificate"):
                    store.newest_commits()
            store.close()


def test_commands_without_users_say_so(cli: Cli) -> None:
    for command in (["user", "list"], ["token", "create", "ann"], ["retention", "list"]):
        assert "no users; `harken user add NAME`" in cli.refused(*command)
    assert cli.ok("user", "audit").out == ""


def test_bad_input_is_refused_on_one_line(cli: Cli) -> None:
    for words, text in (
        (["user", "add", "Ann"], "is not the name of a user"),
        (["user", "add", "ann", "--read", "cafe"], "is not a scope"),
        (["user", "add", "ann", "--read", "project:../x"], "is not the name of a project"),
    ):
        assert text in cli.refused(*words)
    cli.ok("user", "add", "ann")
    for words, text in (
        (["user", "add", "ann"], "exists"),
        (["user", "rights", "bob"], "user 'bob' not found; existing users: ann"),
        (["user", "remove", "bob"], "not found"),
        (["token", "create", "bob"], "not found"),
        (["token", "create", "ann", "--only", "all"], "is not a right"),
        (["token", "create", "ann", "--name", ""], "printable"),
        (["token", "revoke", "x"], "not found"),
        (["retention", "remove", "x"], "rule 'x' not found"),
        (["retention", "add", "x", "--hold", "--project", "a/b"], "is not the name of a project"),
    ):
        assert text in cli.refused(*words), words
    assert cli("retention", "add", "x").code == 2
    assert cli("retention", "add", "x", "--hold", "--older-than", "1d").code == 2


def test_rights_are_replaced_kind_by_kind(cli: Cli) -> None:
    cli.ok("user", "add", "ann", "--read", "project:a", "--write", "project:b")
    cli.ok("user", "rights", "ann", "--read", "*", "--read", "label:x", "--max-bytes", "5")
    row = cli.ok("user", "rights", "ann", "--json").json
    assert (row["rights"], row["max_bytes"]) == (
        ["write project:b", "read *", "read label:x"],
        5,
    )
    cli.ok("user", "rights", "ann", "--write", "")
    assert cli.ok("user", "list", "--json").json[0]["rights"] == ["read *", "read label:x"]


def test_a_token_is_shown_once(cli: Cli) -> None:
    cli.ok("user", "add", "ann")
    token = cli.ok("token", "create", "ann", "--for", "1h").out.strip()
    assert "valid, until" in cli.ok("token", "list").out
    for file in cli.home.rglob("*"):
        assert not file.is_file() or token[4:] not in file.read_bytes().decode("latin-1")


def test_other_machines_connect_with_tls_and_users_only(cli: Cli, tmp_path: Path) -> None:
    cert, key, _ = write_certificate(tmp_path, "localhost")
    tls = ("--tls-cert", cert, "--tls-key", key)
    assert "add users" in cli.refused("serve", "--host", "0.0.0.0", *tls)
    cli.ok("user", "add", "ann")
    assert "--tls-cert" in cli.refused("serve", "--host", "0.0.0.0")
    assert cli("serve", "--tls-cert", cert).code == 2
    for wrong_tls, text in (
        (("--tls-cert", tmp_path / "none", "--tls-key", key), "file not found"),
        (("--tls-cert", key, "--tls-key", key), "not a certificate with the key"),
        (("--tls-cert", cert, "--tls-key", cert), "not a certificate with the key"),
    ):
        assert text in cli.refused("serve", *wrong_tls)
    key.chmod(0o644)
    assert "chmod 600" in cli.refused("serve", *tls)
    cli.environ.update(HARKEN_STORE_CA=str(tmp_path / "none"), HARKEN_STORE_TOKEN="x")
    said = cli.refused(
        "chat", "--model", "scripted:demo", "--store", "https://localhost:9", "-p", "x"
    )
    assert "not a file of certificates" in said


def test_a_hold_stops_gc_and_purge_of_the_owner(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cli.ok("chat", "--model", "scripted:demo", "-p", "Let Jack and Jill meet in a cafe.")
    cli.ok("retention", "add", "all", "--hold")
    monkeypatch.setattr("sys.stdin", io.StringIO("Jack and Jill\n"))
    assert "under legal hold (all)" in cli.refused("store", "purge", "--yes")
    for log in cli.sessions():
        assert "Jack and Jill" in log.read_text()
        log.unlink()
    count = cli.ok("store", "info", "--json").json["objects"]["commit"]
    assert count > 0
    cli.ok("retention", "add", "old", "--older-than", "1s")
    time.sleep(1.1)
    plan = cli.ok("retention", "apply", "--dry-run", "--json").json
    assert (plan["expired"], plan["kept"]) == ([], {"held": count})
    cli.ok("retention", "remove", "all")
    plan = cli.ok("retention", "apply", "--grace", "0s", "--json").json
    assert len(plan["expired"]) == len(plan["removed"]["commits"]) == count
    assert cli.ok("store", "info", "--json").json["objects"]["commit"] == 0


def test_commits_of_others_are_pushed_with_the_right_to_copy(cli: Cli, tmp_path: Path) -> None:
    """A pushed log is a file of the user; the same name of another user is another file."""
    server = tmp_path / "server"
    for user, *rights in (("ann", "--write", "project:cafe"),
                          ("ben", "--copy", "project:cafe", "--write", "project:cafe")):  # fmt: skip
        cli.ok("user", "add", user, *rights, "--home", server)
    cli.ok("chat", "--model", "scripted:demo", "-p", "Let Jack and Jill meet in a cafe.")
    (log,) = cli.sessions()
    with kit.serving("serve", "--home", server, "--port", "0") as (_, address):
        for user, code, reason in (("ann", 2, "this token writes as ann"), ("ben", 0, "")):
            token = cli.ok("token", "create", user, "--home", server).out.strip()
            cli.environ["HARKEN_STORE_TOKEN"] = token
            pushed = cli("push", "--all", address)
            assert pushed.code == code, pushed
            assert reason in pushed.err
    assert [file.name for file in (server / "sessions").iterdir()] == [f"ben~{log.name}"]
