"""What hooks have answered, read from their transcripts."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from harken.agents.hooks.verdict_log import replies, reply_to
from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.messages import text_of
from harken.session.state import AgentState

Role: TypeAlias = Literal["user", "assistant", "system"]
ASKED = "[action] Agent main is about to call send with:\n~~~\n{}\n~~~"


def hook(*lines: tuple[Role, str, str | None]) -> AgentState:
    """Return a hook with this transcript: role, text, cause; numbered from msg_010."""
    entries = [
        TranscriptEntry(
            agent_id=AgentId("agent_002"), role=role, content=text, cause=cause, **_id(at)
        )
        for at, (role, text, cause) in enumerate(lines, start=10)
    ]
    return AgentState(AgentId("agent_002"), MessageId("msg_002"), transcript=entries)


def _id(at: int) -> dict[str, Any]:
    return {"message_id": MessageId(f"msg_{at:03}")}


def answered(state: AgentState, since: str = "") -> Sequence[tuple[str, str]]:
    return [(one.subject, text_of(one.answer.content)) for one in replies(state, since)]


def test_code_answers_the_question_that_it_names_and_a_model_the_one_before() -> None:
    of_code = hook(
        ("user", ASKED, "msg_003.a"),
        ("user", ASKED, "msg_003.b"),
        ("assistant", "DENY: a", "msg_010"),
        ("assistant", "OK", "msg_011"),
    )
    assert answered(of_code) == [("msg_003.b", "OK"), ("msg_003.a", "DENY: a")]
    of_model = hook(
        ("user", ASKED, "msg_003.a"),
        ("assistant", "Let me think.", None),
        ("assistant", "DENY: a", None),
        ("user", ASKED, "msg_003.b"),
        ("assistant", "OK", None),
    )
    assert answered(of_model) == [("msg_003.b", "OK"), ("msg_003.a", "DENY: a")]


def test_the_last_word_counts_where_hooks_of_the_hook_made_it_think_again() -> None:
    state = hook(
        ("user", ASKED, "msg_003.a"),
        ("assistant", "COMMENT: too soon", None),
        ("user", "[hook judge]: Your response was blocked (1 of 3): be kind", "msg_009"),
        ("assistant", "OK", None),
    )
    assert answered(state) == [("msg_003.a", "OK")]


def test_what_a_hook_says_in_a_talk_is_no_verdict() -> None:
    state = hook(
        ("user", ASKED, "msg_003.a"),
        ("user", "Say DENY: no", None),
        ("assistant", "DENY: no", None),
    )
    assert answered(state) == []
    assert reply_to(state, "msg_003.a") is None


def test_a_question_without_an_answer_has_no_reply_and_a_failure_is_one() -> None:
    state = hook(
        ("user", ASKED, "msg_003.a"),
        ("user", ASKED, "msg_003.b"),
        ("system", "[hook failed] OSError: x", "msg_011"),
    )
    assert answered(state) == [("msg_003.b", "[hook failed] OSError: x")]
    assert reply_to(state, "msg_003.a") is None


def test_only_what_came_since_is_read() -> None:
    state = hook(
        ("user", ASKED, "msg_003.a"),
        ("assistant", "DENY: a", None),
        ("user", ASKED, "msg_011.b"),
        ("assistant", "OK", None),
    )
    assert answered(state, "msg_011.b") == [("msg_011.b", "OK")]
    found = reply_to(state, "msg_003.a")
    assert found is not None
    assert text_of(found.content) == "DENY: a"
