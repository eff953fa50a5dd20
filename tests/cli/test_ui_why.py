"""The routes from lines to conversations: rows of the commands, and no file but tracked ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli
from tests.cli.ui_kit import BEARER, Page, show_home

TOTAL = "def total(order):\n    return order.price * order.count\n"
FREE = "    if order.is_free:\n        return 0\n"
SHOP = "def open_shop(name):\n    return f'the shop {name} is open'\n"
PERSON = "\n\nprint(total(None))\n"
SESSION = "claude:5e551001-0000-4000-8000-000000000001"
OUTSIDE = "a secret outside of the repository\n"


@pytest.fixture
def repository(cli: Cli, tmp_path: Path) -> Repository:
    """A repository with edits of an agent and of a person, and a secret beside it."""
    (tmp_path / "secret.txt").write_text(OUTSIDE)
    repository = Repository.create(Path.cwd())
    session = Session(repository).ask("Add a total for orders")
    session.write("a.py", TOTAL, "The total is the price times the count.")
    price = "    return order.price * order.count\n"
    session.edit("a.py", price, FREE + price, "Free orders cost nothing.")
    session.write("shop/open.py", SHOP, "The shop opens.")
    cli.ok("import", session.save(tmp_path))
    text = TOTAL.replace(price, FREE + price) + PERSON
    repository.write("notes.txt", "one\n\ntwo\n")
    repository.commit("Add totals", a_py=text, shop__open_py=SHOP)
    repository.commit("Round", a_py=text.replace("* order", "// order"))
    return repository


@pytest.fixture
def page(cli: Cli, repository: Repository) -> Iterator[Page]:
    with show_home(cli.home, start=repository.folder) as page:
        yield page


def stream(page: Page, path: str, /, **params: Any) -> tuple[list[Any], Any]:
    """Return the parts and the answer of a route that streams."""
    response = page.get(path, **params)
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in response.text.splitlines() if line]
    assert "answer" in lines[-1], lines[-1]
    return [line["part"] for line in lines if "part" in line], lines[-1]["answer"]


def why(page: Page, route: str, repository: Repository, /, **params: Any) -> Any:
    """Return the answer of a route about a repository."""
    _, answer = stream(page, f"/api/why/{route}", repository=str(repository.folder), **params)
    return answer


def test_the_known_repositories_are_those_of_sessions_and_of_the_start(
    cli: Cli, repository: Repository, tmp_path: Path
) -> None:
    other = Repository.create(tmp_path / "other")
    gone = Session(other, 2)
    gone.transcript.shared = {"cwd": "/nowhere/at/all"}
    cli.ok("import", gone.ask("Hello").write("x.py", "x = 1\n", "").save(tmp_path / "more"))
    with show_home(cli.home, start=other.folder) as page:
        answer = page.json("/api/why/repositories")
    rows = [(row["folder"], row["sessions"], row["is_start"]) for row in answer["repositories"]]
    assert rows == [(str(other.folder), 0, True), (str(repository.folder), 1, False)]
    assert answer["others"] == [{"folder": "/nowhere/at/all", "problem": "missing", "sessions": 1}]
    assert (answer["runtimes"]["claude"], answer["problem"]) == ("Claude Code", None)


def test_the_tree_is_read_folder_by_folder(page: Page, repository: Repository) -> None:
    folder = str(repository.folder)
    (repository.folder / "untracked.py").write_text("x = 1\n")
    top = page.json("/api/why/tree", repository=folder)
    assert [(row["name"], row["kind"], row["files"]) for row in top["entries"]] == [
        ("shop", "folder", 1),
        ("a.py", "file", 1),
        ("notes.txt", "file", 1),
    ]
    assert (top["files"], top["is_shallow"]) == (3, False)
    shop = page.json("/api/why/tree", repository=folder, path="shop")
    assert [row["path"] for row in shop["entries"]] == ["shop/open.py"]
    paths = page.json("/api/why/paths", repository=folder, q="opn")["paths"]
    assert paths == ["shop/open.py"]
    assert (
        page.get("/api/why/tree", headers=BEARER, repository=folder, path="no").status_code == 422
    )


@pytest.mark.parametrize("revision", ["", "HEAD~1"])
def test_the_lines_are_those_of_blame(
    cli: Cli, page: Page, repository: Repository, revision: str
) -> None:
    options = ["--rev", revision] if revision else []
    expected = cli.ok("blame", "a.py", "--json", *options).json
    answer = why(page, "blame", repository, path="a.py", revision=revision)
    assert answer["rows"] == expected
    assert {*answer["agents"].values()} == {"agent_001"}  # As in its session.
    assert {row["edit"]["ctx"] for row in expected if row["edit"]} == {*answer["agents"]}
    assert (answer["total"], answer["is_complete"]) == (len(expected), True)
    file = page.json(
        "/api/why/file", repository=str(repository.folder), path="a.py", revision=revision
    )
    assert file["lines"] == [row["text"] for row in expected]
    assert file["version"] == answer["version"]
    window = {"path": "a.py", "revision": revision, "from": 2, "limit": 2}
    assert why(page, "blame", repository, **window)["rows"] == expected[2:4]


def test_the_first_lines_of_a_long_file_come_before_the_others(
    cli: Cli, page: Page, repository: Repository
) -> None:
    repository.commit("Long", a_py=TOTAL + "".join(f"value_{n} = {n}\n" for n in range(300)))
    params = {"repository": str(repository.folder), "path": "a.py"}
    parts, answer = stream(page, "/api/why/blame", **params)
    assert [len(part["rows"]) for part in parts] == [60]
    assert not parts[0]["is_complete"]
    expected = cli.ok("blame", "a.py", "--json").json
    assert (parts[0]["rows"], answer["rows"]) == (expected[:60], expected[:100])
    again, _ = stream(page, "/api/why/blame", **params)
    assert again == []  # It is in the cache.


def test_a_change_of_the_file_or_of_the_edits_is_noticed(
    cli: Cli, page: Page, repository: Repository, tmp_path: Path
) -> None:
    before = why(page, "blame", repository, path="notes.txt")
    repository.write("notes.txt", "one\n\nthree is a new number here\n")
    changed = why(page, "blame", repository, path="notes.txt")
    assert changed["version"] != before["version"]
    assert [row["by"] for row in changed["rows"]] == ["author"] * 3
    session = Session(repository, 3).ask("Add a number")
    session.edit("notes.txt", "two\n", "three is a new number here\n", "Three follows two.")
    cli.ok("import", session.save(tmp_path / "more"))
    again = why(page, "blame", repository, path="notes.txt")
    assert again["rows"][2]["by"] == "agent"
    assert again["rows"] == cli.ok("blame", "notes.txt", "--json").json


@pytest.mark.parametrize(("first", "last"), [(2, 2), (4, 4), (7, 7), (1, 7)])
def test_a_line_is_explained_as_by_why(
    cli: Cli, page: Page, repository: Repository, first: int, last: int
) -> None:
    answer = why(page, "line", repository, path="a.py", first=first, last=last)
    assert answer["rows"] == cli.ok("why", f"a.py:{first}-{last}", "--json").json
    commands = answer["commands"]
    target = f"a.py:{first}" + (f"-{last}" if last > first else "")
    why_line = f"cd {repository.folder} && harken why {target} --home {cli.home}"
    assert commands["why"] == why_line
    if first == 7:  # A person wrote it.
        assert set(commands) == {"why"}
    else:
        assert answer["sessions"] == {SESSION: SESSION}
        assert "--ask" in commands["ask"]
        assert commands["claude"].endswith(f"{target} --in claude --home {cli.home}")


def test_a_commit_is_explained_as_by_why(cli: Cli, page: Page, repository: Repository) -> None:
    expected = cli.ok("why", "HEAD~1", "--json").json
    answer = why(page, "commit", repository, commit="HEAD~1")
    assert (answer["rows"], answer["total"]) == (expected, len(expected))


def test_the_shares_are_those_of_who(cli: Cli, page: Page, repository: Repository) -> None:
    answer = why(page, "shares", repository)
    expected = cli.ok("who", "--json").json
    assert {name: answer[name] for name in expected} == expected
    by_path = {row["path"]: row for row in answer["files"]}
    assert set(by_path) == {"a.py", "notes.txt"}
    assert by_path["a.py"]["agent_lines"] == 3
    shop = why(page, "shares", repository, path="shop")
    assert shop["total"] == cli.ok("who", "shop", "--json").json["total"]


def test_a_call_leads_to_its_message_and_to_the_lines_of_today(
    cli: Cli, page: Page, repository: Repository
) -> None:
    (row,) = why(page, "line", repository, path="a.py", first=2)["rows"]
    edit = row["edit"]
    found = page.session(SESSION, "call", id=edit["call"], ctx=edit["ctx"])
    [item] = page.session(SESSION, "items", **{"from": found["index"], "limit": 1})["items"]
    assert item["message_id"] == found["message"]
    (call,) = [part for part in item["parts"] if part["kind"] == "call"]
    assert call["id"] == edit["call"]
    assert call["files"] == [str(repository.folder / "a.py")]
    assert found["step"] == 2
    _, lines = stream(
        page,
        f"/api/sessions/{SESSION}/lines",
        message=found["message"],
        position=call["position"],
    )
    (file,) = lines["files"]
    assert (file["path"], file["repository"]) == ("a.py", str(repository.folder))
    assert (file["lines"], file["count"], file["changed"]) == ([[2, 3]], 2, [])
    assert page.get(f"/api/sessions/{SESSION}/call", id="no", ctx="").status_code == 404


def test_the_lines_of_a_file_that_was_moved_since_are_found(
    page: Page, repository: Repository
) -> None:
    repository.git("mv", "shop/open.py", "doors.py")
    repository.commit("Move")
    items = page.all_items(SESSION, "agent_001")
    calls = [
        (item["message_id"], part["position"])
        for item in items
        for part in item["parts"]
        if part["kind"] == "call" and part["files"] == [str(repository.folder / "shop/open.py")]
    ]
    ((message, position),) = calls
    _, lines = stream(page, f"/api/sessions/{SESSION}/lines", message=message, position=position)
    assert [(row["path"], row["lines"]) for row in lines["files"]] == [("doors.py", [[1, 2]])]


def test_a_file_has_the_sessions_that_edited_it(page: Page, repository: Repository) -> None:
    (row,) = why(page, "sessions", repository, path="a.py")["sessions"]
    assert (row["session"], row["page"]) == (SESSION, SESSION)
    assert (row["edits"], row["lines"]) == (2, 3)
    assert row["first"] < row["last"]
    assert why(page, "sessions", repository, path="notes.txt")["sessions"] == []


HOSTILE_PATHS = {
    "absolute": "/etc/passwd",
    "parent": "../secret.txt",
    "within": "shop/../../secret.txt",
    "dots": "shop/../a.py",
    "here": "./a.py",
    "git": ".git/config",
    "empty": "",
    "folder": "shop",
    "untracked": "untracked.py",
    "link": "link.txt",
    "folder link": "outside/secret.txt",
    "replaced folder": "data/secret.txt",
    "zero": "a.py\0",
    "option": "--output=x",
    "magic": ":(top)a.py",
    "glob": "*.py",
    "binary": "image.png",
    "long": "x/" * 2000,
}


@pytest.fixture
def hostile(repository: Repository, tmp_path: Path) -> Repository:
    """The repository with links out of it, a binary file, and a folder that became a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(OUTSIDE)
    folder = repository.folder
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "outside").symlink_to(outside)
    (folder / "image.png").write_bytes(b"\x89PNG\0\0")
    repository.write("data/secret.txt", "tracked\n")
    repository.commit("Links")
    (folder / "data" / "secret.txt").unlink()
    (folder / "data").rmdir()
    (folder / "data").symlink_to(outside)
    (folder / "untracked.py").write_text("x = 1\n")
    return repository


@pytest.mark.parametrize("kind", HOSTILE_PATHS)
def test_no_other_file_than_tracked_ones_is_read(
    page: Page, hostile: Repository, kind: str
) -> None:
    repository = str(hostile.folder)
    routes: dict[str, Any] = {"file": {}, "blame": {}, "line": {"first": 1}, "sessions": {}}
    for route, more in routes.items():
        for revision in ("", "HEAD"):
            if kind == "replaced folder" and revision:
                continue  # In the commit it is a file as any other.
            response = page.get(
                f"/api/why/{route}",
                repository=repository,
                path=HOSTILE_PATHS[kind],
                revision=revision,
                **more,
            )
            assert response.status_code == 422, (route, response.text)
            assert "secret outside" not in response.text


@pytest.mark.parametrize("folder", ["/", "/etc", "..", "", "{top}/shop", "{top}/", "{top}/../x"])
def test_no_other_folder_than_a_known_repository_is_read(
    page: Page, repository: Repository, folder: str
) -> None:
    name = folder.replace("{top}", str(repository.folder))
    for route in ("tree", "file", "blame", "shares", "commit"):
        more: Any = {"commit": "HEAD"} if route == "commit" else {"path": "a.py"}
        response = page.get(f"/api/why/{route}", repository=name, **more)
        assert response.status_code == 404, (route, response.text)


@pytest.mark.parametrize("revision", ["nonsense", "--output=x", "-r", "HEAD:a.py", "a b", "\0"])
def test_a_revision_that_is_none_is_refused(
    page: Page, repository: Repository, revision: str
) -> None:
    folder = str(repository.folder)
    for route, name in {"tree": "revision", "file": "revision", "commit": "commit"}.items():
        path = {"path": "a.py"} if route == "file" else {}
        params: dict[str, Any] = {"repository": folder, name: revision, **path}
        response = page.get(f"/api/why/{route}", **params)
        assert response.status_code == 422
    assert not (repository.folder / "x").exists()


def test_a_repository_whose_files_are_elsewhere_is_refused(
    page: Page, repository: Repository, tmp_path: Path
) -> None:
    repository.git("config", "core.worktree", str(tmp_path))
    response = page.get("/api/why/tree", repository=str(repository.folder))
    assert response.status_code == 422
    assert "has its files in" in response.text


def test_files_with_unusual_names_and_encodings_are_read(
    cli: Cli, page: Page, repository: Repository
) -> None:
    folder = repository.folder
    names = [
        "odd\nname.py",
        "<img src=x onerror=alert(1)>.py",
        "\u202efdp.py",
        "a b&c=d#e.py",
        "-x.py",
    ]
    for name in names:
        repository.write(name, SHOP)
    (folder / os.fsdecode(b"caf\xe9.py")).write_bytes(b"name = 'caf\xe9'\n")
    (folder / "empty.py").write_text("")
    (folder / "wide.js").write_text("x" * 300_000)
    repository.commit("Names")
    params = {"repository": str(folder)}
    for name in names:
        assert page.json("/api/why/file", path=name, **params)["lines"] == SHOP.splitlines()
    cafe = page.json("/api/why/file", path="caf\ufffd.py", **params)
    assert cafe["lines"] == ["name = 'café'"]
    assert why(page, "blame", repository, path="caf\ufffd.py")["rows"][0]["by"] == "author"
    assert why(page, "blame", repository, path="empty.py")["rows"] == []
    wide = page.json("/api/why/file", path="wide.js", **params)
    assert [len(line) for line in wide["lines"]] == [65_536]
    answer = why(page, "line", repository, path="-x.py", first=1)
    assert "harken why ./-x.py:1 " in answer["commands"]["why"]


def test_a_submodule_and_a_shallow_clone_are_told(
    page: Page, cli: Cli, repository: Repository, tmp_path: Path
) -> None:
    repository.git(
        *("-c", "protocol.file.allow=always", "submodule", "add", "-q"),
        *(str(repository.folder), "copy"),
    )
    repository.commit("Add a submodule")
    folder = str(repository.folder)
    kinds = {r["name"]: r["kind"] for r in page.json("/api/why/tree", repository=folder)["entries"]}
    assert kinds["copy"] == "submodule"
    response = page.get("/api/why/file", repository=folder, path="copy")
    assert (response.status_code, "submodule" in response.text) == (422, True)
    clone = tmp_path / "clone"
    repository.git("clone", "-q", "--depth=1", f"file://{folder}", str(clone))
    with show_home(cli.home, start=clone) as other:
        assert other.json("/api/why/tree", repository=str(clone))["is_shallow"]


def test_the_routes_need_the_token(page: Page, repository: Repository) -> None:
    for route in ("repositories", "tree", "file", "blame", "line", "commit", "shares", "sessions"):
        assert page.get(f"/api/why/{route}", headers={}).status_code == 401


def test_a_home_without_recordings_shows_the_authors(cli: Cli, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "plain")
    repository.commit("Begin", a_py=TOTAL)
    with show_home(cli.home, start=repository.folder) as page:
        rows = why(page, "blame", repository, path="a.py")["rows"]
    assert [(row["by"], row["author"]) for row in rows] == [("author", "Jill")] * 2
