"""The composed messages of hooks of code, in handwritten logs and beside what real hooks got."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import Comment, Hook, HookQuestion, Ok, Rewrite, register_agent_class
from harken.core import events as ev
from harken.core.ids import AgentId
from harken.core.verdict import Verdict
from harken.views.filter import transcript
from harken.views.viewer import SessionViewer
from tests.agent_kit import call, call_message, check_log, open_stage, script_model
from tests.unit.agents.hook_kit import send, watch
from tests.unit.views.log_builder import LogBuilder


@pytest.fixture
def guard(play: LogBuilder) -> AgentId:
    return play.create_agent("Guard", by=play.root, relation="hook")


def messages(play: LogBuilder, agent: str) -> list[tuple[str, str]]:
    return [(entry.role, str(entry.content)) for entry in transcript(play.viewer().events, agent)]


@pytest.mark.req("S4-22")
def test_question_and_answer_are_composed_from_the_verdict(
    play: LogBuilder, guard: AgentId
) -> None:
    input_id = play.hears(play.root, "Hi")
    verdict = play.gives_verdict(guard, "input", input_id, "COMMENT: be short")
    question, answer = play.viewer().get_transcript("Guard")
    assert {name: question[name] for name in ("message_id", "agent_id", "cause", "purpose")} == {
        "message_id": f"{verdict}.question",
        "agent_id": guard,
        "cause": input_id,
        "purpose": "question",
    }
    assert question["content"] == HookQuestion("input", "Root", input_id, "Hi").prompt
    assert (answer["message_id"], answer["cause"]) == (verdict, f"{verdict}.question")
    assert (answer["role"], answer["content"]) == ("assistant", "COMMENT: be short")


def test_question_has_the_text_as_rewritten_by_earlier_hooks(
    play: LogBuilder, guard: AgentId
) -> None:
    other = play.create_agent("Other", by=play.root, relation="hook")
    utterance = play.says(play.root, "It is 1234")
    play.gives_verdict(guard, "response", utterance, "REWRITE: It is ****")
    play.gives_verdict(other, "response", utterance, "OK")
    assert "It is 1234" in messages(play, guard)[0][1]
    assert "It is ****" in messages(play, other)[0][1]


def test_question_has_the_name_that_the_agent_had_then(play: LogBuilder, guard: AgentId) -> None:
    for name in ("Ada", "Eve"):
        play.gives_verdict(guard, "input", play.hears(play.root, "Hi"), "OK")
        play.session.append(ev.AgentConfigured(agent_id=play.root, name=name))
    play.gives_verdict(guard, "input", play.hears(play.root, "Hi"), "OK")
    questions = [text for role, text in messages(play, guard) if role == "user"]
    assert [text.split()[2] for text in questions] == ["Root", "Ada", "Eve"]


def test_messages_of_a_smart_hook_are_not_composed(play: LogBuilder, guard: AgentId) -> None:
    play.judges(guard, "input", input_id := play.hears(play.root, "Hi"), "OK")
    assert messages(play, guard) == [("user", f"[input] about {input_id}"), ("assistant", "OK")]


def test_failure_follows_the_logged_question_of_a_smart_hook(
    play: LogBuilder, guard: AgentId
) -> None:
    question = play.asks_hook(guard, "input", play.hears(play.root, "Hi"))
    [cause] = [entry.cause for entry in transcript(play.viewer().events, guard)]
    play.says(guard, "Hm.")
    play.gives_verdict(guard, "input", str(cause), "OK", failed="it is unclear")
    *_, failure = play.viewer().get_transcript(guard)
    assert [role for role, _ in messages(play, guard)] == ["user", "assistant", "system"]
    assert (failure["content"], failure["cause"]) == ("the hook failed: it is unclear", question)


@register_agent_class("test-calling")
class Calling(Hook):
    """Asks a subagent before it judges a call."""

    def begin(self) -> None:
        self.asked: list[HookQuestion] = []

    async def judge(self, question: HookQuestion) -> Verdict:
        self.asked.append(question)
        if question.point == "action":
            await self.task("helper", "Help.", prompt="Is it fine?")
            return Rewrite('{"text": "better"}')
        return Comment("Well.") if question.point == "result" else Ok()


@pytest.mark.req("S4-22")
def test_calls_of_a_judgment_are_between_its_question_and_its_answer(tmp_path: Path) -> None:
    model = script_model(main=[call_message(call("send", text="hello")), "Done."], helper=["Yes."])
    one = open_stage(tmp_path, model, tools=[send])
    calling = Calling(one.session, runtime=one.runtime)
    calling.install(one.root, "calling")
    last = watch(one, "last")
    assert one.ask("Send.") == "Done."
    viewer = SessionViewer(one.log)
    entries = viewer.get_transcript("calling")
    assert [entry["role"] for entry in entries] == [
        *("user", "assistant"),
        *("user", "assistant", "tool", "assistant"),
        *("user", "assistant") * 2,
    ]
    question, made, _, answer = entries[2:6]
    assert (made["cause"], answer["cause"]) == (question["cause"], question["message_id"])
    for hook in (calling, last):
        questions = [e for e in viewer.get_transcript(hook.agent_id) if e["role"] == "user"]
        assert [e["content"] for e in questions] == [q.prompt for q in hook.asked]
        assert [e["cause"] for e in questions] == [q.subject for q in hook.asked]
    assert '"better"' in last.asked[1].text
    check_log(one.log)
