"""The use cases in examples/, played offline: what their READMEs say of the log is so."""

import asyncio
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from examples.__main__ import HERE, folders
from examples.example import Example
from harken import SessionViewer
from harken.cli.main import run_cli as cli
from harken.core.events import LlmRequest, TranscriptEntry
from harken.core.messages import text_of
from tests.agent_kit import check_log

MOST_LINES = 60


def played(name: str, folder: Path) -> SessionViewer:
    """Play a use case with its script, and return a viewer of its log."""
    log = folder / f"{name}.jsonl"
    folder_ = folders()[name]
    asyncio.run(runpy.run_path(str(folder_ / "run.py"))["play"](Example.of(folder_, log)))
    check_log(log)
    return SessionViewer(log)


def perspective(viewer: SessionViewer, name: str) -> str:
    return viewer.extract_agent_perspective(name)


def requests(viewer: SessionViewer, name: str) -> list[str]:
    """Return, for each request of an agent, all that its model read, as one text."""
    agent_id = viewer.resolve_agent(name)
    requests_ = [e for e in viewer.events if isinstance(e, LlmRequest) and e.agent_id == agent_id]
    views = [viewer.context(request.message_id) for request in requests_]
    return ["\n".join(text_of(row.message.content) for row in view.messages) for view in views]


def dialog(viewer: SessionViewer, *names: str) -> list[str]:
    return [row["content"] for row in viewer.extract_dialog(names)]


@pytest.mark.parametrize("name", folders())
def test_use_case_is_short_and_names_views(name: str) -> None:
    folder = folders()[name]
    assert len((folder / "run.py").read_text().splitlines()) < MOST_LINES
    readme = (folder / "README.md").read_text()
    assert f"python -m examples {name}" in readme
    assert f"harken view {name}.jsonl" in readme


@pytest.mark.parametrize("name", folders())
def test_views_named_in_a_readme_exist(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    played(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    readme = (folders()[name] / "README.md").read_text()
    commands = [
        " ".join(command.split()) for command in re.findall(r"`harken (view [^`]+)`", readme)
    ]
    assert len(commands) >= 3
    for command in commands:
        if "NUMBER" not in command:
            code = cli(command.split(), {"HARKEN_HOME": str(tmp_path / "home")})
            out, err = capsys.readouterr()
            assert code == 0, err
            assert out, command


def test_numbers_of_messages_in_readmes_are_those_of_the_scripts(tmp_path: Path) -> None:
    opening = played("debate", tmp_path).events.get("msg_039")
    goals = played("strategy", tmp_path).events.get("msg_025")
    assert isinstance(opening, TranscriptEntry)
    assert text_of(opening.content).startswith("Streets are")
    assert isinstance(goals, TranscriptEntry)
    assert text_of(goals.content).startswith("GOAL 1")


@pytest.mark.req("S1-16")
def test_a_debate_is_the_dialog_of_two_and_each_transcript_one_side(tmp_path: Path) -> None:
    viewer = played("debate", tmp_path)
    messages = dialog(viewer, "for", "against")
    assert [text.split()[0] for text in messages if "Streets" in text or "opponent" in text] == [
        "Streets",
        "My",
    ]
    assert not any("argued better" in text for text in messages)
    assert "You argue against the motion" in perspective(viewer, "against")
    assert "You argue for the motion" not in perspective(viewer, "against")


@pytest.mark.req("S1-17")
def test_a_secret_told_to_one_character_is_in_no_request_of_another(tmp_path: Path) -> None:
    viewer = played("characters", tmp_path)
    assert any("sealed with wax" in text for text in requests(viewer, "Alice"))
    requests_ = requests(viewer, "Bob")
    assert len(requests_) == 2
    assert not any("wax" in text for text in requests_)
    assert "Take your time" in requests_[-1]  # what Alice said where he was there


@pytest.mark.req("S1-22", "S4-39", "S4-38")
def test_a_teachers_plan_is_in_its_transcript_and_never_in_its_pupils(tmp_path: Path) -> None:
    viewer = played("socratic", tmp_path)
    assert "Galileo" in perspective(viewer, "teacher")
    assert "COMMENT: Ask what would happen on the Moon." in perspective(viewer, "teacher")
    for text in requests(viewer, "pupil"):
        assert "Galileo" not in text
        assert "whose place" not in text
    assert "[hook teacher]: Ask what would happen on the Moon." in requests(viewer, "pupil")[-1]
    first, *_ = viewer.tree()
    assert (first.name, first.place) == ("teacher", "primary")


@pytest.mark.req("S0-44", "S1-22")
def test_dialog_of_teacher_and_pupil_reads_like_a_conversation(tmp_path: Path) -> None:
    viewer = played("socratic", tmp_path)
    items = viewer.extract_dialog(["teacher", "pupil"])
    lines = [(item["name"], item["content"]) for item in items]
    assert lines == [
        ("user", "I want to understand why things fall."),
        ("teacher", "Ask why things fall."),
        ("pupil", "I dropped a spoon this morning and it went down. Why down, and why at all?"),
        ("user", "Heavy things fall because the Earth pulls them more."),
        ("teacher", "Ask about a feather and a sheet of lead."),
        (
            "pupil",
            (
                "So a feather is pulled less than lead. But if I crumple a sheet of paper it falls "
                "faster, and it is no heavier: how can that be?"
            ),
        ),
        ("user", "Hm. The feather is slowed down by the air."),
        ("teacher", "Ask what would happen on the Moon."),
        ("pupil", "And where there is no air, like on the Moon? What would they do there?"),
        ("user", "Then without air they would fall equally fast!"),
        (
            "teacher",
            (
                "You found it yourself: without air all things fall equally fast. It was the air, not "
                "the weight, that made the difference."
            ),
        ),
    ]
    comments = [item for item in items if "verdict" in item]
    assert [item["verdict"]["kind"] for item in comments] == ["comment", "comment"]
    for agents in (["pupil", "teacher"], ["teacher", "pupil", "teacher"]):
        assert viewer.extract_dialog(agents) == items


@pytest.mark.req("S1-23")
def test_goals_reach_the_tacticians_transcript_and_what_it_decides_later(tmp_path: Path) -> None:
    viewer = played("strategy", tmp_path)
    tactician = viewer.resolve_agent("tactics")
    texts = [
        entry
        for entry in viewer.events
        if isinstance(entry, TranscriptEntry) and entry.agent_id == tactician
    ]
    [goal] = [entry for entry in texts if "GOAL 2: never" in text_of(entry.content)]
    assert text_of(goal.content).startswith("[strategy]: ")
    assert goal.substance is not None
    assert "GOAL 2: never compete on price" in requests(viewer, "tactics")[-1]
    assert "Because of GOAL 2" in text_of(texts[-1].content)


def test_three_reviewers_read_a_real_change_and_a_lead_makes_one_review(tmp_path: Path) -> None:
    viewer = played("review", tmp_path)
    for name in ("correctness", "failure", "reader"):
        assert "stat_log" in requests(viewer, name)[1]  # what `read` gave of change.diff
        assert "return -1" in requests(viewer, name)[-1]
    assert "[failure]: " in requests(viewer, "reader")[-1]
    assert "bash" not in str(viewer.tree())


@pytest.mark.req("S1-19", "S0-53", "S4-25")
def test_a_hook_approves_three_subagents_and_refuses_the_fourth(tmp_path: Path) -> None:
    viewer = played("resources", tmp_path)
    assert [row.kind for row in viewer.verdicts()] == ["ok", "ok", "ok", "denial"]
    assert {"ferries", "trains", "buses"} < {row.name for row in viewer.tree()}
    assert "planes" not in {row.name for row in viewer.tree()}
    agent_id = perspective(viewer, "approver")
    assert '"planes"' in agent_id  # the prompt for approval, and below it why it was refused
    assert "Three are there already" in agent_id
    assert "Error: Action blocked by hook 'approver': three" in perspective(viewer, "researcher")


@pytest.mark.req("S4-24")
def test_a_hook_sees_disagreement_and_an_advocate_is_created(tmp_path: Path) -> None:
    viewer = played("steel-man", tmp_path)
    denial, *verdicts = viewer.verdicts()
    assert (denial.kind, denial.point) == ("denial", "response")
    assert {row.kind for row in verdicts} == {"ok"}
    assert "you have not looked at the case for it" in perspective(viewer, "colleague")
    advocate = viewer.resolve_agent("advocate")
    birth_index = next(index for index, e in enumerate(viewer.events) if e.agent_id == advocate)
    denied = next(
        index for index, e in enumerate(viewer.events) if e.message_id == denial.message_id
    )
    assert birth_index > denied
    assert "read_log" in perspective(viewer, "on-your-toes")


@pytest.mark.req("S1-21", "S4-32")
def test_a_memory_gathers_notes_and_brings_one_back_when_it_matters(tmp_path: Path) -> None:
    viewer = played("memory", tmp_path)
    agent_id = perspective(viewer, "memory")
    assert agent_id.index("no nuts") < agent_id.index("for two, and quickly")
    last = requests(viewer, "memory")[-1]
    assert "no nuts" in last
    assert "What is a quick soup" not in last  # what it was asked before is gone
    assert "[hook memory]: Their daughter cannot have nuts." in requests(viewer, "cook")[-1]


@pytest.mark.req("S1-18", "S0-54")
def test_a_changed_file_wakes_the_agent_that_watches_it(tmp_path: Path) -> None:
    viewer = played("events", tmp_path)
    texts = perspective(viewer, "watcher")
    assert "[event stock]" in texts
    assert texts.index("[event stock]") < texts.index("Tea has run out")
    assert "[watcher]: Tea has run out" in perspective(viewer, "shopkeeper")


@pytest.mark.req("S4-37", "S4-30", "S4-53")
def test_a_repeated_complaint_becomes_a_hook_that_another_hook_made(tmp_path: Path) -> None:
    viewer = played("hook-maker", tmp_path)
    first, trainer, plain = viewer.tree()
    assert [trainer.place, plain.place] == ["hook", "hook"]
    assert (trainer.name, plain.name) == ("trainer", "plain")
    assert "no answer has an exclamation mark" in perspective(viewer, "plain")
    [rewrite] = [row for row in viewer.verdicts() if row.kind == "rewrite"]
    assert (rewrite.hook_name, rewrite.proposed[-1]) == ("plain", "!")
    assert [outcome.name for outcome in rewrite.outcomes] == ["user"]
    assert first.name == "helper"


def test_unplayable_use_case_states_the_reason_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples", "debate", "--model", "nobody/none", "--log"]
    ran = subprocess.run(
        [*command, tmp_path / "debate.jsonl"],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert "provider 'nobody' not found" in ran.stderr
