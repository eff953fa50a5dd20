"""The server of the page runs sessions as `harken chat` does, and they can be continued anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.chat.hook_errors import LOGGER, HookErrorLog
from harken.session.session import Session
from harken.session.verify import verify
from tests.cli.kit import Cli
from tests.cli.ui_kit import show_home
from tests.cli.ui_run_kit import Runs, folder, model

__all__ = ["folder", "model"]

ANN = "agent_003"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def runs(home: Path) -> Iterator[Runs]:
    with show_home(home) as page:
        yield Runs(page)


@pytest.fixture
def tea(runs: Runs, model: str, folder: Path) -> str:
    """The name of a new session that runs."""
    row = runs.start(model=model, folder=str(folder), name="tea")
    assert (row["name"], row["state"], row["folder"]) == ("tea", "running", str(folder))
    assert row["primary"] == "agent_001"
    return "tea"


def find_agent(runs: Runs, session: str, name: str) -> str:
    """Return the id of the agent of this name."""
    agents = runs.page.session(session)["agents"]
    return str(next(row["agent_id"] for row in agents if row["name"] == name))


def agent_row(row: Any, agent: str = "agent_001") -> Any:
    """Return the turns of an agent."""
    return next(item for item in row["agents"] if item["agent"] == agent)


def test_a_message_is_answered_once_also_if_it_is_sent_twice(runs: Runs, tea: str) -> None:
    for _ in range(2):
        runs.send(tea, "hello", id_="m1")
    runs.wait_idle(tea)
    assert runs.said(tea) == [("Heard", "hello"), ("Said", "Hi there.")]
    assert runs.page.session(tea)["session"]["is_live"]


def test_messages_during_a_turn_wait_and_are_sent_in_order(runs: Runs, tea: str) -> None:
    runs.send(tea, "wait")
    row = runs.send(tea, "hello")
    assert agent_row(row)["queued"][-1] == "hello"
    runs.send(tea, "make me tea")
    runs.wait_idle(tea)
    heard = [text for label, text in runs.said(tea) if label == "Heard"]
    assert heard == ["wait", "hello", "make me tea"]


def test_a_message_to_a_subagent_is_answered_where_it_stands(
    runs: Runs, tea: str, home: Path
) -> None:
    runs.ask(tea, "make Ann")
    ann = find_agent(runs, tea, "Ann")
    before = runs.said(tea)
    runs.ask(tea, "Coffee?", ann)
    assert runs.said(tea, ann)[-2:] == [("Heard", "Coffee?"), ("Said", "Coffee is fine, too.")]
    assert runs.said(tea) == before
    rows = {row["name"]: row["place"] for row in runs.page.session(tea)["agents"]}
    assert (rows["main"], rows["Ann"]) == ("primary", "subagent")
    runs.ask(tea, "hello")
    assert runs.said(tea)[-1] == ("Said", "Hi there.")
    runs.do(tea, "end", {})
    verify(home / "sessions" / "tea.jsonl")


def test_a_message_needs_an_agent_that_answers(runs: Runs, tea: str) -> None:
    hook = find_agent(runs, tea, "changed-files")
    for agent, status in (("agent_999", 404), (hook, 422), ("main", 404)):
        body = {"id": "x", "agent": agent, "text": "hello"}
        assert runs.page.post("/api/runs/tea/messages", body).status_code == status
    assert runs.said(tea) == []


@pytest.mark.parametrize("decision", ["allow", "always", "deny"])
def test_an_action_is_allowed_or_denied_on_the_page(
    runs: Runs, tea: str, folder: Path, decision: str
) -> None:
    runs.send(tea, "touch it")
    question = runs.wait_question(tea)
    assert (question["kind"], question["agent"], question["tool"]) == ("approval", "main", "bash")
    assert "touch made.txt" in question["preview"]
    assert question["rules"]
    assert not (folder / "made.txt").exists()
    body = {"decision": decision, "text": "no files"}
    body |= {"rule": question["rules"][0]} if decision == "always" else {}
    row = runs.do(tea, f"permissions/{question['id']}", body)
    assert row["questions"] == []
    runs.wait_idle(tea)
    assert (folder / "made.txt").exists() == (decision != "deny")
    (call,) = [
        part
        for item in runs.page.all_items(tea, "agent_001")
        for part in item["parts"]
        if part["kind"] == "call"
    ]
    assert ("the user denied it: no files" in call["result"]["text"]) == (decision == "deny")
    runs.send(tea, "touch again")
    if decision == "always":
        runs.wait_idle(tea)
    else:
        assert runs.wait_question(tea)["id"] != question["id"]


def test_the_first_answer_counts_and_others_are_told(runs: Runs, tea: str) -> None:
    runs.send(tea, "touch it")
    question = runs.wait_question(tea)
    path = f"/api/runs/tea/permissions/{question['id']}"
    for wrong in (
        {"decision": "answer", "text": "x"},
        {"decision": "always", "rule": "bash(*)"},
        {"decision": "always"},
        {"decision": "yes"},
        {},
    ):
        assert runs.page.post(path, wrong).status_code == 422
    assert runs.page.post(path, {"decision": "deny"}).status_code == 200
    late = runs.page.post(path, {"decision": "allow"})
    assert late.status_code == 422
    assert late.json()["error"]["message"] == "this question was answered already: denied"
    unknown = runs.page.post("/api/runs/tea/permissions/none", {"decision": "allow"})
    assert unknown.status_code == 404


def test_a_question_of_an_agent_is_answered_in_words(runs: Runs, tea: str) -> None:
    runs.send(tea, "ask me")
    question = runs.wait_question(tea)
    assert (question["kind"], question["text"]) == ("question", "Which tea?")
    assert question["options"] == ["green", "black"]
    empty = runs.page.post(
        f"/api/runs/tea/permissions/{question['id']}", {"decision": "answer", "text": " "}
    )
    assert empty.status_code == 422
    runs.do(tea, f"permissions/{question['id']}", {"decision": "answer", "text": "green"})
    runs.wait_idle(tea)
    assert runs.said(tea)[-1] == ("Said", "You said green.")


def test_an_interrupted_turn_keeps_what_came_and_continues(runs: Runs, tea: str) -> None:
    with runs.page.follow(tea, panels="agent_001") as changes:
        runs.send(tea, "slow")
        for change in changes:
            turns = change.get("run") and agent_row(change["run"])
            if turns and turns["text"].startswith("one"):
                break
    runs.send(tea, "hello")
    runs.do(tea, "interrupt", {})
    row = agent_row(runs.wait_idle(tea))
    assert (row["returned"], row["queued"], row["text"]) == (["hello"], [], "")
    (heard, part, note) = runs.said(tea)
    assert heard == ("Heard", "slow")
    assert part[1].startswith("one")
    assert "cut off here" in note[1]
    runs.ask(tea, "hello")
    assert runs.said(tea)[-2:] == [("Heard", "hello"), ("Said", "Hi there.")]


def test_a_turn_that_was_cut_off_in_a_call_continues_there(runs: Runs, tea: str) -> None:
    nothing = runs.page.post("/api/runs/tea/messages", {"id": "x"})
    assert "no turn" in nothing.json()["error"]["message"]
    runs.send(tea, "touch it")
    question = runs.wait_question(tea)
    runs.do(tea, "interrupt", {})
    assert agent_row(runs.wait_idle(tea))["can_continue"]
    runs.send(tea, None)
    again = runs.wait_question(tea)
    assert (again["preview"], again["id"] != question["id"]) == (question["preview"], True)
    runs.do(tea, f"permissions/{again['id']}", {"decision": "allow"})
    runs.wait_idle(tea)
    assert runs.said(tea) == [("Heard", "touch it"), ("Said", "Done.")]


def test_a_question_is_withdrawn_with_its_turn(runs: Runs, tea: str) -> None:
    runs.send(tea, "touch it")
    question = runs.wait_question(tea)
    runs.do(tea, "interrupt", {})
    assert runs.wait_idle(tea)["questions"] == []
    late = runs.page.post(f"/api/runs/tea/permissions/{question['id']}", {"decision": "allow"})
    assert "was withdrawn" in late.json()["error"]["message"]


def test_an_answer_is_streamed_until_it_is_in_the_log(runs: Runs, tea: str) -> None:
    runs.send(tea, "wait")
    texts: list[str] = []
    with runs.page.follow(tea, panels="agent_001") as changes:
        for change in changes:
            said = [row["item"] for row in change["items"] if row["item"]["label"] == "Said"]
            turns = agent_row(change["run"])
            assert not (said and turns["text"]), "it is shown twice"
            texts.append(turns["text"])
            if said:
                break
    assert len({*texts} - {""}) > 1
    assert all("one two three four five six".startswith(text) for text in texts)


def test_a_failed_model_call_is_one_line_and_the_run_goes_on(runs: Runs, tea: str) -> None:
    row = agent_row(runs.ask(tea, "fail"))
    assert "the key is not valid" in row["error"]
    assert "\n" not in row["error"]
    assert row["can_continue"]
    assert agent_row(runs.ask(tea, "hello"))["error"] is None


def test_a_session_that_was_run_before_is_continued_in_its_folder(
    runs: Runs, tea: str, folder: Path
) -> None:
    runs.ask(tea, "hello")
    assert runs.do(tea, "end", {})["is_unused"] is False
    assert runs.find(tea) is None
    assert not runs.page.session(tea)["session"]["is_live"]
    row = runs.start(session=tea)
    assert (row["name"], row["folder"]) == (tea, str(folder))
    assert runs.start(session=tea)["began"] == row["began"]
    runs.ask(tea, "hello")
    assert [text for label, text in runs.said(tea) if label == "Said"] == ["Hi there."] * 2
    assert [run["name"] for run in runs.page.json("/api/runs")["runs"]] == [tea]


def test_a_new_session_without_messages_is_removed_at_its_end(
    runs: Runs, tea: str, home: Path
) -> None:
    assert runs.do(tea, "end", {})["is_unused"] is True
    assert not (home / "sessions" / "tea.jsonl").exists()
    assert runs.page.get("/api/sessions/tea").status_code == 404


def test_a_fork_of_a_run_is_continued_beside_it(runs: Runs, tea: str) -> None:
    runs.ask(tea, "hello")
    fork = runs.page.post("/api/sessions/tea/fork", {}).json()["session"]
    assert runs.start(session=fork)["name"] == "tea-fork"
    runs.ask(fork, "wait")
    assert runs.said(fork)[-1] == ("Said", "one two three four five six")
    assert runs.said(tea)[-1] == ("Said", "Hi there.")


def test_an_imported_session_is_continued_in_a_new_one(
    demo: Cli, model: str, tmp_path: Path
) -> None:
    from tests.web.scenes import IMPORTED, import_tea

    import_tea(demo.home, tmp_path / "imports")
    with show_home(demo.home) as page:
        runs = Runs(page)
        row = runs.start(session=IMPORTED, model=model)
        assert row["name"].startswith("session_")
        runs.ask(row["name"], "hello")
        assert runs.said(row["name"])[-1] == ("Said", "Hi there.")


def test_a_template_is_the_first_agent(runs: Runs, home: Path, model: str) -> None:
    agents = home / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: poet\ndescription: Writes.\nmodel: {model}\ntools: [read]\n---\nYou rhyme."
    (agents / "poet.md").write_text(text)
    choices = runs.page.json("/api/runs/choices")
    assert choices["folder"] == str(Path.cwd())
    assert choices["permission"] == "ask"
    (template,) = choices["templates"]
    assert (template["name"], template["description"]) == ("poet", "Writes.")
    name = runs.start(template="poet")["name"]
    runs.ask(name, "hello")
    assert runs.texts(name)[0] == ("System", "You rhyme.")
    assert runs.page.session(name)["agents"][0]["template"] == "poet"


def test_a_session_of_another_program_is_not_run(runs: Runs, tea: str, home: Path) -> None:
    runs.ask(tea, "hello")
    runs.do(tea, "end", {})
    with Session(home / "sessions" / "tea.jsonl"):
        response = runs.page.post("/api/runs", {"session": tea})
        assert response.status_code == 409
        assert "another program writes this session" in response.json()["error"]["message"]
        assert runs.find(tea) is None
        assert runs.page.session(tea)["session"]["is_live"]
    assert runs.start(session=tea)["state"] == "running"


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        ({"session": "none"}, 404, "session"),
        ({"session": "../tea"}, 404, "session"),
        ({"model": "nobody/nothing"}, 422, "nobody"),
        ({"model": "scripted:none.yaml"}, 422, "none.yaml"),
        ({"template": "none"}, 404, "template"),
        ({"folder": "work"}, 422, "full path"),
        ({"folder": "/none/at/all"}, 422, "no such folder"),
        ({"permission": "root"}, 422, "permission"),
        ({"name": "../x"}, 422, "not a valid session name"),
        ({"nonsense": 1}, 422, "nonsense"),
        ([], 422, ""),
    ],
)
def test_a_run_that_cannot_begin_is_refused_in_one_line_and_leaves_nothing(
    runs: Runs, home: Path, model: str, options: Any, status: int, text: str
) -> None:
    body = {"model": model, **options} if isinstance(options, dict) else options
    response = runs.page.post("/api/runs", body)
    assert response.status_code == status, response.text
    assert text in response.json()["error"]["message"]
    assert "\n" not in response.json()["error"]["message"]
    assert runs.page.json("/api/runs")["runs"] == []
    assert not list((home / "sessions").glob("*.jsonl"))


def test_a_model_without_its_key_is_one_clear_line(runs: Runs) -> None:
    response = runs.page.post("/api/runs", {"model": "anthropic/claude-x"})
    assert response.status_code == 422
    assert "ANTHROPIC_API_KEY" in response.json()["error"]["message"]


def test_the_number_of_runs_is_limited(home: Path, model: str) -> None:
    with show_home(home, max_runs=2) as page:
        runs = Runs(page)
        names = [runs.start(model=model)["name"] for _ in range(2)]
        response = page.post("/api/runs", {"model": model})
        assert response.status_code == 503
        assert "2 sessions run here already" in response.json()["error"]["message"]
        runs.do(names[0], "end", {})
        runs.start(model=model)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_nothing_runs_in_a_home_that_is_read_only(runs: Runs, tea: str, home: Path) -> None:
    runs.do(tea, "end", {})
    (home / "sessions").chmod(0o500)
    try:
        assert "read-only" in runs.page.json("/api/runs/choices")["obstacle"]
        assert runs.page.post("/api/runs", {}).status_code == 403
    finally:
        (home / "sessions").chmod(0o700)


def test_a_run_whose_log_fails_ends_and_says_why(runs: Runs, tea: str, home: Path) -> None:
    runs.ask(tea, "hello")
    log = home / "sessions" / "tea.jsonl"
    shutil.copy(log, home / "copy")
    log.unlink()
    (home / "copy").rename(log)
    runs.send(tea, "hello")
    row = runs.wait(tea, lambda row: row if row["state"] == "failed" else None)
    assert "deleted" in row["error"]
    assert not [handler for handler in LOGGER.handlers if isinstance(handler, HookErrorLog)]
    assert runs.start(session=tea)["state"] == "running"
