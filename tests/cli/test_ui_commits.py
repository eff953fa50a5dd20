"""The routes of commits: the graph, a commit, comparisons, and changes of labels and branches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Cli
from tests.cli.test_ctx_changes import commit
from tests.cli.ui_kit import BEARER, Page, show_home


@pytest.fixture
def chats(cli: Cli, script: str) -> Cli:
    """A home with three chats, one of which has a subagent."""
    for prompt in ("make Ann", "hello", "hello again"):
        cli.ok("chat", "--model", script, "-p", prompt)
    return cli


@pytest.fixture
def page(chats: Cli) -> Iterator[Page]:
    with show_home(chats.home) as page:
        yield page


def log(cli: Cli) -> list[Any]:
    rows: list[Any] = cli.ok("ctx", "log", "--all", "--json").json
    return rows


def labels_of(cli: Cli, name: str) -> list[str]:
    labels: list[str] = cli.ok("ctx", "show", name, "--json").json.get("labels", [])
    return labels


def refusal(page: Page, path: str, body: object, status: int) -> str:
    """Return the one line that tells why a change is refused."""
    response = page.post(path, body)
    assert response.status_code == status, response.text
    message: str = response.json()["error"]["message"]
    assert "\n" not in message
    return message


def test_pages_are_ranges_of_the_graph(chats: Cli, page: Page) -> None:
    names = {row["id"] for row in log(chats)}
    whole = page.json("/api/commits", limit=500)
    assert whole["total"] == len(names) == len(whole["rows"])
    assert {row["id"] for row in whole["rows"]} == names
    pages = [page.json("/api/commits", **{"from": at, "limit": 1}) for at in range(len(names))]
    assert [row for part in pages for row in part["rows"]] == whole["rows"]
    assert {part["version"] for part in pages} == {whole["version"]}
    assert page.json("/api/commits", **{"from": 10**9})["rows"] == []


def test_rows_have_the_fields_of_the_log(chats: Cli, page: Page) -> None:
    rows = {row["id"]: row for row in page.json("/api/commits", limit=500)["rows"]}
    for row in log(chats):
        for member in ("type", "created_at", "principal", "message_count", "summary", "session_id"):
            if member in row:  # The log leaves out members with their default values.
                assert rows[row["id"]][member] == row[member], member
    assert {row["runtime"] for row in rows.values()} == {"harken"}
    assert [row["agent_name"] for row in rows.values() if row["is_spawn"]] == ["Ann"]


def test_a_session_has_its_commits_with_the_ids_of_their_agents(page: Page) -> None:
    session = page.json("/api/sessions", text="make Ann")["sessions"][0]["name"]
    rows = page.json("/api/commits", session=session)["rows"]
    agents = {row["agent_id"] for row in page.session(session)["agents"]}
    assert {row["agent"] for row in rows} <= agents
    assert len({row["agent"] for row in rows}) == 2
    everything = page.json("/api/commits", limit=500)
    assert everything["total"] > len(rows)
    own_agents = {row["id"]: row["agent"] for row in everything["rows"]}
    assert {row["id"]: row["agent"] for row in rows}.items() <= own_agents.items()
    passing = [line for row in everything["rows"] for line in row["passing"]]
    assert {own_agents[line["source"]] == line["agent"] for line in passing} <= {True}
    spawn = next(row for row in rows if row["is_spawn"])
    details = page.json(f"/api/commits/{spawn['id']}")
    assert details["commit"]["agent"] == spawn["agent"] != "agent_001"


def test_a_new_commit_is_in_the_next_page(cli: Cli, tmp_path: Path) -> None:
    first = commit(cli, tmp_path, "Tea?")
    with show_home(cli.home) as page:
        before = page.json("/api/commits")
        second = commit(cli, tmp_path, "Milk?", "--parent", first)
        found = page.json("/api/commits/find", name=second)
        after = page.json("/api/commits")
    assert (found["id"], found["row"]) == (second, 0)
    assert [row["id"] for row in after["rows"]] == [second, first]
    assert found["version"] == after["version"] != before["version"]


def test_a_home_without_a_store_has_no_commits(cli: Cli) -> None:
    cli.home.mkdir()
    with show_home(cli.home) as page:
        assert page.json("/api/commits") == {"total": 0, "version": "", "rows": []}
        assert page.json("/api/commits/names") == {"total": 0, "names": []}


def test_names_are_found_as_on_the_command_line(chats: Cli, page: Page) -> None:
    newest = log(chats)[0]["id"]
    chats.ok("ctx", "branch", "main", newest)
    chats.ok("ctx", "label", newest, "good")
    for name in ("main", "good", newest[:16], newest):
        assert page.json("/api/commits/find", name=name)["id"] == newest
    names = page.json("/api/commits/names", text="O")["names"]
    assert names == [{"kind": "label", "name": "good", "commit": newest}]
    assert page.json("/api/commits/names", limit=1)["total"] == 2
    assert page.get("/api/commits/find", name="nothing").status_code == 404
    assert page.get("/api/commits/find", name="").status_code == 422


def test_a_commit_is_described_with_its_neighbors_and_messages(cli: Cli, tmp_path: Path) -> None:
    first = commit(cli, tmp_path, "Tea?")
    second = commit(cli, tmp_path, "Milk?", "--parent", first)
    with show_home(cli.home) as page:
        details = page.json(f"/api/commits/{first}")
        assert details["parent"] is None
        assert [child["id"] for child in details["children"]] == [second]
        assert [row["text"] for row in details["messages"]] == ["Tea?", "Tea?!"]
        details = page.json(f"/api/commits/{second}", **{"from": 1})
        assert details["parent"]["id"] == first
        assert (details["total"], [row["text"] for row in details["messages"]]) == (2, ["Milk?!"])
        assert page.get(f"/api/commits/ctx-{'0' * 64}").status_code == 404
        assert page.get("/api/commits/ctx-12").status_code == 422


def test_the_whole_text_of_a_message_is_a_request_of_its_own(cli: Cli, tmp_path: Path) -> None:
    first = commit(cli, tmp_path, "Tea?" + 30_000 * " x")
    second = commit(cli, tmp_path, "Milk?" + 40_000 * " y", "--parent", first)
    with show_home(cli.home) as page:
        cut = page.json(f"/api/commits/{second}")["messages"][0]
        path = f"/api/commits/{second}/text"
        whole = page.json(path, own=0)["text"]
        assert len(whole) == cut["text_length"] > len(cut["text"])
        assert page.json(path, position=2)["text"] == whole
        assert page.json(path, position=0)["text"].startswith("Tea?")
        assert page.get(path, position=4).status_code == 404
        assert page.get(path, own=2).status_code == 404
        assert page.get(path).status_code == page.get(path, own=0, position=0).status_code == 422


def test_a_commit_leads_to_its_session_and_agent(page: Page) -> None:
    spawn = next(row for row in page.json("/api/commits")["rows"] if row["is_spawn"])
    child = page.json(f"/api/commits/{spawn['id']}")["children"][0]["id"]
    place = page.json(f"/api/commits/{child}/place")
    names = {row["agent_id"]: row["name"] for row in page.session(place["session"])["agents"]}
    assert names[place["agent"]] == "Ann"
    assert page.session(place["session"], "find", message=place["message"])


def test_a_comparison_is_that_of_the_command(chats: Cli, page: Page) -> None:
    rows = log(chats)
    for before, after in ((rows[0]["id"], rows[-1]["id"]), (rows[-1]["id"], rows[1]["id"])):
        shown = page.json("/api/commits/compare", before=before, after=after)
        printed = chats.ok("ctx", "diff", before, after, "--json").json
        for row in shown["rows"]:
            assert not row.pop("is_partial")
        assert shown["rows"] == printed["messages"]
        assert (shown["kept"], shown["ancestor"]) == (printed["kept"], printed["ancestor"])
        assert shown["total"] == len(printed["messages"]) == sum(shown["counts"].values())


def test_labels_are_set_and_removed_as_by_the_command(chats: Cli, page: Page) -> None:
    name = log(chats)[0]["id"]
    path = f"/api/commits/{name}/labels"
    answer = page.post(path, {"labels": ["good", "best"], "expected": []}).json()
    assert answer["labels"] == labels_of(chats, name) == ["good", "best"]
    page.post(path, {"labels": ["best"], "expected": ["good", "best"]})
    assert labels_of(chats, name) == ["best"]
    assert "is blank" in refusal(page, path, {"labels": [" "], "expected": ["best"]}, 422)


def test_labels_that_another_writer_changed_are_not_replaced(chats: Cli, page: Page) -> None:
    name = log(chats)[0]["id"]
    chats.ok("ctx", "label", name, "theirs")
    path = f"/api/commits/{name}/labels"
    assert "changed by another" in refusal(page, path, {"labels": ["mine"], "expected": []}, 409)
    assert labels_of(chats, name) == ["theirs"]


def test_a_label_is_moved(chats: Cli, page: Page) -> None:
    first, second = (row["id"] for row in log(chats)[:2])
    chats.ok("ctx", "label", first, "good")
    move = {"label": "good", "source": first, "target": second}
    assert page.post("/api/labels/move", move).json() == {"commit": second}
    assert (labels_of(chats, first), labels_of(chats, second)) == ([], ["good"])
    assert "'good'" in refusal(page, "/api/labels/move", move, 404)


def test_branches_are_changed_as_by_the_command(chats: Cli, page: Page) -> None:
    first, second = (row["id"] for row in log(chats)[:2])

    def branches() -> Any:
        return chats.ok("ctx", "branch", "--json").json

    assert page.post("/api/branches", {"name": "main", "to": first, "expected": None}).is_success
    assert branches() == {"main": first}
    assert page.json("/api/commits")["rows"][0]["branches"] == ["main"]
    page.post("/api/branches", {"name": "main", "to": second, "expected": first})
    assert branches() == {"main": second}
    page.post("/api/branches/rename", {"name": "main", "new_name": "best", "expected": second})
    assert branches() == {"best": second}
    page.post("/api/branches", {"name": "best", "to": None, "expected": second})
    assert branches() == {}


def test_a_branch_that_another_writer_moved_is_not_changed(chats: Cli, page: Page) -> None:
    first, second = (row["id"] for row in log(chats)[:2])
    chats.ok("ctx", "branch", "main", second)
    for path, body in (
        ("/api/branches", {"name": "main", "to": None, "expected": first}),
        ("/api/branches", {"name": "main", "to": first, "expected": None}),
        ("/api/branches/rename", {"name": "main", "new_name": "best", "expected": first}),
    ):
        assert "branch 'main'" in refusal(page, path, body, 409)
    assert chats.ok("ctx", "branch", "--json").json == {"main": second}
    bad = {"name": "a b", "to": first, "expected": None}
    assert "not the name of a branch" in refusal(page, "/api/branches", bad, 422)


@pytest.mark.parametrize(
    "body", [[], {"labels": "good"}, {"labels": ["a"], "expected": [], "more": 1}, {"labels": [1]}]
)
def test_an_invalid_body_is_refused(chats: Cli, page: Page, body: object) -> None:
    name = log(chats)[0]["id"]
    refusal(page, f"/api/commits/{name}/labels", body, 422)
    assert labels_of(chats, name) == []


def test_a_change_needs_the_token_and_the_own_page(chats: Cli, page: Page) -> None:
    name = log(chats)[0]["id"]
    body = {"labels": ["good"], "expected": []}
    path = f"/api/commits/{name}/labels"
    assert page.post(path, body, headers={}).status_code == 401
    foreign = {**BEARER, "Origin": "https://example.com"}
    assert page.post(path, body, headers=foreign).status_code == 403
    assert labels_of(chats, name) == []
