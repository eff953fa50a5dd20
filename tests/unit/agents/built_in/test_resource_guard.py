"""The built-in smart hook `resource-guard`: what is expensive needs the user's yes."""

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld
from harken.agents.action_schemas import ACTIONS
from harken.agents.runtime import ActionPolicy
from harken.agents.tree.hook_file import HookFiles
from harken.llm.base import ModelRequest
from harken.world.ask_user import ask_user
from harken.world.user import UserQuestion
from tests.agent_kit import Stage, call, call_message, check_log, open_stage
from tests.unit.agents.hook_kit import SENT, send
from tests.unit.agents.smart_hooks import Cast, last, sends, texts


class Person:
    """Answers always the same."""

    def __init__(self, answer: str) -> None:
        self.answer, self.asked = answer, list[UserQuestion]()

    async def ask(self, asked: UserQuestion) -> str:
        self.asked.append(asked)
        return self.answer


def guards(request: ModelRequest) -> Any:
    """Follow what the file says: ask about what is dear, once, and do as the user says."""
    said, decided = texts(request)[-1], [t for t in texts(request) if t.startswith("[note]")]
    if decided:
        return "OK" if "yes" in decided[-1] else "DENY: the user said no"
    if last(request).role == "user":
        return call_message(call("ask_user", question="Send for 5 EUR?", options=["yes", "no"]))
    if said.startswith("Kept"):
        return "The user agrees.\nOK" if "yes" in said else "DENY: the user said no"
    return call_message(call("keep_note", "n", text=f"Sending: {said}"))


def acted(folder: Path, user: Person | None) -> Stage:
    cast = Cast(main=sends, guard=guards)
    world = LocalWorld([send, ask_user])
    world.user = user  # type: ignore[assignment]
    runtime = AgentRuntime(model=cast.model(), world=world, policy=ActionPolicy(actions=ACTIONS))
    one = open_stage(folder, cast.model(), runtime=runtime)
    HookFiles().create("resource-guard", one.root).install(one.root, "guard")
    one.ask("Send.")
    one.ask("Send again.")
    check_log(one.log)
    return one


@pytest.mark.req("S1-19")
def test_the_user_approves_once_and_what_was_asked_and_decided_is_visible(tmp_path: Path) -> None:
    one = acted(tmp_path, person := Person("yes"))
    assert SENT == ["hello", "hello"]
    assert [asked.question for asked in person.asked] == ["Send for 5 EUR?"]
    guard = one.id_of("guard")
    assert one.select_lines(agent_id=guard, content="The user agrees.\nOK")
    heard, said = [row["content"] for row in one.select_lines(agent_id="user")]
    assert "asks: Send for 5 EUR?" in heard
    assert said == "yes"


@pytest.mark.req("S1-19")
def test_what_the_user_does_not_want_is_not_done(tmp_path: Path) -> None:
    one = acted(tmp_path, Person("no"))
    assert SENT == []
    blocked = [row["content"] for row in one.select_lines(agent_id=one.root.agent_id, role="tool")]
    assert blocked == ["Error: Action blocked by hook 'guard': the user said no"] * 2


def test_where_nobody_answers_it_is_denied(tmp_path: Path) -> None:
    one = acted(tmp_path, None)
    assert SENT == []
    [asked, *_] = one.select_lines(agent_id=one.id_of("guard"), role="tool")
    assert asked["content"].startswith("Error: no answer")
