"""Every point of a session can be branched: the branch has its past, and goes on from there."""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.__main__ import folders
from examples.example import Example
from harken import AgentRuntime, FunctionModel, SessionViewer, load_session
from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import get_agent
from harken.agents.open_calls import answer_or_stop
from harken.agents.runtime import ActionPolicy
from harken.core.events import TranscriptEntry
from harken.core.ids import reference_number
from harken.core.messages import text_of
from harken.llm.base import ModelRequest
from harken.session.branch import branch, branch_with_edit
from harken.session.log.checksum import has_more, read_body
from harken.session.log.reader import iter_events
from harken.session.session import Session
from harken.session.verify import verify
from tests.agent_kit import check_log, fast_options, full_state, run
from tests.golden.test_demo_log import GOLDEN
from tests.property.resumed_sessions import Script, differences

NEW_TEXT = "Something else."


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The logs of all examples, and that of the demo."""
    return {"demo": GOLDEN} | {
        name: play_example(folder, tmp_path_factory.mktemp(name) / "s.jsonl")
        for name, folder in folders().items()
    }


@pytest.fixture(params=["demo", *sorted(folders())])
def example(request: pytest.FixtureRequest, logs: dict[str, Path]) -> Path:
    """The log of an example, or that of the demo."""
    return logs[request.param]


def play_example(folder: Path, log: Path) -> Path:
    play = runpy.run_path(str(folder / "run.py"))["play"]
    asyncio.run(play(Example.of(folder, log)))
    return log


def bodies(log: Path, count: int) -> list[bytes]:
    return [read_body(line) for line in log.read_bytes().splitlines(keepends=True)[1:count]]


def group_ends(log: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of lines up to the end of each group, and those lines."""
    lines = log.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if not has_more(line):
            yield number, b"".join(lines[:number])


def answer(request: ModelRequest) -> str:
    is_hook = any("hook" in str(message.content) for message in request.messages)
    return "OK" if is_hook else "Done."


def go_on(log: Path) -> None:
    """Resume a session, and let its agent answer."""
    runtime = AgentRuntime(
        model=FunctionModel(answer, "play"), policy=ActionPolicy(actions=ACTIONS)
    )
    root, session = load_session(log, runtime=runtime, options=fast_options())
    with session:
        primary = get_agent(root, session.state.primary or root.agent_id)
        run(answer_or_stop(primary, "Go on."))
    check_log(log, finished=False)  # an agent that was not asked may have open calls


def load_state(log: Path) -> dict[str, object]:
    with Session.load(log, options=fast_options()) as session:
        return {name: value for name, value in full_state(session).items() if name != "session_id"}


def check_prefixes(log: Path, folder: Path, step: int) -> int:
    """Branch a log at the end of every `step`-th group. Return the number of branches."""
    count = 0
    for number, content in [*group_ends(log)][::step]:
        last = json.loads(content.splitlines()[-1])["message_id"]
        made = branch(log, folder / f"{number}.jsonl", last)
        assert bodies(made.path, number) == bodies(log, number)
        assert len(made.path.read_bytes().splitlines()) == number
        prefix = folder / f"cut-{number}.jsonl"
        prefix.write_bytes(content)
        assert load_state(made.path) == load_state(prefix)
        assert verify(made.path) == []
        if number > 1:
            go_on(made.path)
        count += 1
    return count


def check_resumes(log: Path, folder: Path) -> int:
    """Resume and branch a log at the end of each group. Return the number of groups."""
    count = 0
    for number, content in group_ends(log):
        prefix = folder / f"{number}.jsonl"
        prefix.write_bytes(content)
        last = json.loads(content.splitlines()[-1])["message_id"]
        resume(branch(prefix, folder / f"branch-{number}.jsonl", last).path)
        resume(prefix)
        assert prefix.read_bytes().startswith(content)
        count += 1
    return count


def resume(log: Path) -> None:
    """Load a session with its agents, and close it. A log without an agent gets one."""
    prompt = None if SessionViewer(log).tree() else "You."
    runtime = AgentRuntime(
        model=FunctionModel(answer, "play"), policy=ActionPolicy(actions=ACTIONS)
    )
    root, session = load_session(log, runtime=runtime, system_prompt=prompt, options=fast_options())
    with session:
        agents = [get_agent(root, agent_id) for agent_id in session.agents]
    assert root in agents
    check_log(log, finished=False)


def check_edits(log: Path, folder: Path, step: int) -> int:
    """Branch a log with another text of every `step`-th message. Return the number of branches."""
    messages = [event for event in iter_events(log) if isinstance(event, TranscriptEntry)]
    for message in messages[::step]:
        to = folder / f"{message.message_id}.jsonl"
        made = branch_with_edit(log, to, message.message_id, NEW_TEXT, options=fast_options())
        events = [*iter_events(made.path)]
        (edited,) = [event for event in events if event.message_id == message.message_id]
        assert isinstance(edited, TranscriptEntry)
        assert text_of(edited.content) == NEW_TEXT
        assert edited.tool_calls == message.tool_calls
        copied = reference_number(made.origin.upto) + 1
        assert bodies(made.path, copied) == bodies(log, copied)
        go_on(made.path)
    return len(messages[::step])


@pytest.mark.req("S0-32")
def test_every_prefix_of_the_examples_resumes_and_branches(
    logs: dict[str, Path], tmp_path: Path
) -> None:
    count = 0
    for name, log in logs.items():
        (tmp_path / name).mkdir()
        count += check_resumes(log, tmp_path / name)
    assert count > 400


def test_points_of_the_examples_are_branched_and_go_on(example: Path, tmp_path: Path) -> None:
    assert check_prefixes(example, tmp_path, 9) >= 3


def test_messages_of_the_examples_are_edited_and_go_on(example: Path, tmp_path: Path) -> None:
    assert check_edits(example, tmp_path, 9) >= 2


@pytest.mark.full
def test_all_points_of_the_examples_are_branched_and_go_on(example: Path, tmp_path: Path) -> None:
    assert check_prefixes(example, tmp_path, 1) >= 20


@pytest.mark.full
def test_all_messages_of_the_examples_are_edited_and_go_on(example: Path, tmp_path: Path) -> None:
    assert check_edits(example, tmp_path, 1) >= 10


def branch_at_end(log: Path, to: Path, content: bytes) -> None:
    """Branch a log after its first lines."""
    branch(log, to, json.loads(content.splitlines()[-1])["message_id"])


def check_equal(script: Script, folder: Path, *, every: int = 1) -> int:
    """Check that each branch goes on as the session did. Return the number of branches."""
    outcomes = dict(differences(script, folder, every=every, write=branch_at_end))
    assert {number: text for number, text in outcomes.items() if text} == {}
    return len(outcomes)


@pytest.mark.parametrize("seed", [2, 7])
def test_a_branch_goes_on_as_the_session_did(tmp_path: Path, seed: int) -> None:
    assert check_equal(Script(seed), tmp_path, every=4) > 10


@pytest.mark.full
def test_branches_after_every_group_go_on_as_their_sessions_did(tmp_path: Path) -> None:
    counts = [check_equal(Script(seed), tmp_path / str(seed)) for seed in range(12)]
    assert sum(counts) > 800
