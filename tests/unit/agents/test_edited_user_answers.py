"""A branch in which the user said something else goes on as if the user had said it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, load_session
from harken.session.branch import branch_with_edit
from harken.session.log.checksum import has_more
from harken.world.ask_user import ask_user
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    open_stage,
    script_model,
)
from tests.unit.agents.crash_kit import cut_after
from tests.unit.agents.discussion_kit import (
    Person,
    heard,
    open_discussion,
    results,
    resume_discussion,
    steps,
)

DISCUSSIONS: dict[str, dict[str, Any]] = {
    "plain": {"speakers": ["A", "user", "B"]},
    "only the user": {"speakers": ["user"], "rounds": 2},
    "judge": {"speakers": ["user", "A"], "rounds": 3, "until": "judge:Judge"},
    "chair": {"speakers": ["A", "user"], "rounds": 2, "order": "moderator:Chair"},
    "phrase": {"speakers": ["user", "A"], "rounds": 3, "until": "agreed"},
}


class Speaker(Person):
    """A user who says the same each time."""

    text = "Tea."

    async def ask(self, asked: Any) -> str:
        self.questions.append(asked)
        return self.text


def first_answer(stage: Stage) -> str:
    """Return the id of the first answer of the user."""
    answers = stage.select_lines(agent_id="user", role="assistant")
    return str(answers[0]["message_id"])


def with_user(stage: Stage, text: str) -> Stage:
    """Let the user of a session say this text from now on."""
    user = Speaker()
    user.text = text
    stage.runtime.world.user = user
    return stage


def outcome(stage: Stage) -> tuple[Any, ...]:
    return results(stage), steps(stage), heard(stage)


@pytest.mark.req("S0-32")
@pytest.mark.parametrize("before", ["Tea.", "Agreed."])
@pytest.mark.parametrize("after", ["Milk, please.", "We are agreed."])
@pytest.mark.parametrize("arguments", DISCUSSIONS.values(), ids=[*DISCUSSIONS])
def test_all_participants_hear_the_edited_answer_of_the_user(
    tmp_path: Path, arguments: dict[str, Any], before: str, after: str
) -> None:
    for folder in ("uncut", "other"):
        (tmp_path / folder).mkdir()
    expected = with_user(open_discussion(tmp_path / "uncut", arguments), after)
    assert expected.ask("Go.") == "End."
    other = with_user(open_discussion(tmp_path / "other", arguments), before)
    assert other.ask("Go.") == "End."
    other.session.close()
    made = branch_with_edit(
        other.log, tmp_path / "b.jsonl", first_answer(other), after, options=fast_options()
    )
    content = made.path.read_bytes()
    resumed = with_user(resume_discussion(made.path, arguments), after)
    assert resumed.ask() == "End."
    assert outcome(resumed) == outcome(expected)
    resumed.session.close()
    check_log(made.path)
    lines = made.path.read_bytes().splitlines(keepends=True)
    for count in range(len(content.splitlines()), len(lines)):
        if not has_more(lines[count - 1]):
            _check_cut(cut_after(made.path, count), arguments, after, outcome(expected))


def _check_cut(log: Path, arguments: dict[str, Any], text: str, expected: tuple[Any, ...]) -> None:
    """Resume a branch that was cut, and check that it ends as the uncut one."""
    stage = with_user(resume_discussion(log, arguments), text)
    stage.ask()
    assert outcome(stage) == expected
    stage.session.close()
    check_log(log)


@pytest.mark.req("S0-32")
def test_an_edited_answer_to_ask_user_is_the_result_of_the_call(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("ask_user", "q", question="Which color?")),
            lambda request: f"You said {request.messages[-1].content}",
        ]
    )
    user = Speaker()
    runtime = AgentRuntime(model=model, world=LocalWorld([ask_user], user=user))
    stage = open_stage(tmp_path, model, runtime=runtime)
    assert stage.ask("Go.") == "You said Tea."
    stage.session.close()
    made = branch_with_edit(
        stage.log, tmp_path / "b.jsonl", first_answer(stage), "Blue.", options=fast_options()
    )
    root, session = load_session(made.path, runtime=runtime, options=fast_options())
    resumed = Stage(root, session, runtime)
    assert resumed.ask() == "You said Blue."
    assert resumed.result("q")["substance"] == first_answer(stage)
    assert len(user.questions) == 1
    session.close()
    check_log(made.path)
