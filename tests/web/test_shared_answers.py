"""The answers of the page in one file are those of the server's routes."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.shared_data import DATA, needed
from tests.cli.ui_kit import Page as Server
from tests.cli.ui_kit import show_home
from tests.web.browser_kit import Browser
from tests.web.scenes import IMPORTED, run
from tests.web.shared_kit import FileTab, path_of, render, without, write_page
from tests.web.test_hostile import hostile_home
from tests.web_contents import read_contents

__all__ = ["hostile_home"]

VERSIONS = ("written", "heard", "result", "diff", "other")
REAL = {
    "claude-code/entireio+cli/10/2b7007badc": 5,
    "codex/EntityProcess+agentv/da/4bdc81f3ac": 7,
    "gemini-cli": 1,
    "pi/badlogic+pi-mono/packages/coding-agent/test/fixtures/before-compaction.jsonl": 9,
}
"""Real transcripts -> every how many answers are compared."""
SHORT = "gemini-cli"
"""The one that is compared in the short form of the tests."""


class Oracle:
    """Compares the answers of a server with those of a file."""

    def __init__(self, server: Server, tab: FileTab, name: str, every: int = 1) -> None:
        self._server, self._tab, self._name, self._every = server, tab, name, every
        self.compared = 0

    def ask(self, view: str, **params: Any) -> Any:
        """Return the answer of the server, or the status of a failure."""
        response = self._server.get(f"/api/{path_of(self._name, view)}", **params)
        return response.json() if response.status_code == 200 else {"failed": response.status_code}

    def compare(self, view: str, *requests: dict[str, Any], list_: str = "") -> list[Any]:
        """Compare the answers to requests. Return those of the server.

        `list_`: the member that is a list. The server may end it earlier than the file.
        """
        expected = [self.ask(view, **request) for request in requests]
        answers = self._tab.ask([[path_of(self._name, view), request] for request in requests])
        for request, server, file in zip(requests, expected, answers, strict=True):
            if list_ and list_ in server:
                file[list_] = file[list_][: len(server[list_])]
            assert without(file) == without(server), (view, request)
            self.compared += 1
        return expected

    def compare_list(self, view: str, list_: str, **params: Any) -> list[Any]:
        """Compare a whole list, by ranges. Return its rows."""
        rows: list[Any] = []
        while True:
            [page] = self.compare(view, {**params, "from": len(rows), "limit": 137}, list_=list_)
            rows += page[list_]
            if len(rows) >= page["total"]:
                return rows

    def sample(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values to compare."""
        return values[:: self._every]


def compare_all(oracle: Oracle) -> None:
    """Compare the answers of all routes."""
    [info] = oracle.compare("", {})
    agents = [row["agent_id"] for row in info["agents"]]
    items = [
        item for agent in agents for item in oracle.compare_list("items", "items", agent=agent)
    ]
    events = oracle.compare_list("timeline", "events")
    rows = [*oracle.sample(events), *oracle.sample(items)]
    ids = [*dict.fromkeys(row["message_id"] for row in rows)]
    oracle.compare("find", *({"message": id_} for id_ in [*ids, "msg_999999"]))
    for id_ in ids:
        oracle.compare(f"messages/{id_}", {})
    oracle.compare_list("hooks", "rows")
    panels = ";".join(agents)
    oracle.compare("align", *({"message": id_, "panels": panels} for id_ in ids))
    words = [{"panel": agent, "text": text} for agent in agents for text in ("the", "CODE")]
    oracle.compare("matches", *words)
    compare_steps(oracle, agents)
    oracle.compare("text", *iter_text_requests(oracle.sample(items)))
    compare_dialogs(oracle, info["agents"])
    oracle.compare("media", {"hash": "0" * 64})


def compare_steps(oracle: Oracle, agents: Sequence[str]) -> None:
    """Compare the lists of model calls, and each with the messages that it read."""
    for agent in agents:
        oracle.compare_list("steps", "steps", agent=agent)
    for row in oracle.sample(oracle.compare_list("steps", "steps")):
        view = f"steps/{row['number']}"
        middle = row["messages"] // 2
        oracle.compare(
            view,
            {"from": 0, "limit": 50},
            {"from": middle, "limit": 20},
            {"from": max(0, row["messages"] - 3), "limit": 500},
            list_="messages",
        )


def iter_text_requests(items: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield requests for all texts that items may have."""
    for item in items:
        message = {"message": item["message_id"]}
        yield from ({**message, "version": version} for version in VERSIONS[:2])
        for part in item["parts"]:
            if part.get("position") is not None:
                for version in VERSIONS:
                    yield {**message, "part": part["position"], "version": version}


def compare_dialogs(oracle: Oracle, rows: Sequence[Any]) -> None:
    """Compare the dialog of all agents, and those of parents and children in both orders."""
    agents = [row["agent_id"] for row in rows]
    talkers = [row["agent_id"] for row in rows if row["place"] != "hook"]
    pairs = [(row["parent"], row["agent_id"]) for row in rows if row.get("parent")]
    groups = [agents, talkers, *(order for pair in pairs for order in permutations(pair))]
    for group in groups:
        if len(group) < 2:
            continue
        names = ",".join(group)
        items = oracle.compare_list("dialog", "items", agents=names)
        requests = [
            {"message": item["message_id"], "agents": names, "version": version}
            for item in items
            for version in ("draft", *(part["version"] for part in item["parts"]))
        ]
        oracle.compare("text", *requests)


def compare_session(home: Path, name: str, file: Path, browser: Browser, every: int = 1) -> int:
    """Compare the answers about a session. Return the number of compared answers."""
    page = write_page(home, name, file, no_redact=True)
    with show_home(home) as server, browser.new_context() as context:
        tab = FileTab(context, page)
        tab.open()
        tab.page.wait_for_function("window.harken !== undefined")
        oracle = Oracle(server, tab, name, every)
        compare_all(oracle)
        assert tab.problems == []
        context.close()
        return oracle.compared


@pytest.mark.parametrize("name", ["harbor", "album", IMPORTED])
def test_the_answers_of_a_file_are_those_of_the_routes(
    home: Path, browser: Browser, tmp_path: Path, name: str
) -> None:
    assert compare_session(home, name, tmp_path / "page.html", browser) > 40


def test_the_answers_for_hostile_and_long_texts_are_those_of_the_routes(
    hostile_home: Path, browser: Browser, tmp_path: Path
) -> None:
    assert compare_session(hostile_home, "hostile", tmp_path / "page.html", browser) > 100


def test_an_image_of_a_file_has_the_bytes_of_the_route(home: Path) -> None:
    with show_home(home) as server:
        items = server.session("album", "items", agent="agent_001", limit=1)["items"]
        hash_ = items[0]["parts"][1]["hash"]
        image = server.get("/api/sessions/album/media", hash=hash_)
    assert image.headers["content-type"] == "image/png"
    assert base64.b64encode(image.content) in read_contents(render(home, "album"))


@needed
@pytest.mark.parametrize(
    "transcript",
    [pytest.param(name, marks=[] if name == SHORT else pytest.mark.full) for name in REAL],
)
def test_the_answers_for_real_transcripts_are_those_of_the_routes(
    browser: Browser, tmp_path: Path, transcript: str
) -> None:
    home = tmp_path / "home"
    run(home, "import", DATA / "transcripts" / transcript)
    with show_home(home) as server:
        names = [row["name"] for row in server.json("/api/sessions")["sessions"]]
    assert names
    for name in names[:2]:
        compare_session(home, name, tmp_path / "page.html", browser, REAL[transcript])
