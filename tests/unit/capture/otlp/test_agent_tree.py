"""Whose call a span is, from the spans around it."""

from __future__ import annotations

from harken.capture.otlp.agent_tree import AgentTree
from harken.capture.otlp.span import ReceivedSpan
from harken.core.messages import Message
from tests.otlp_kit import chat_attributes, new_span

AGENT = {"gen_ai.operation.name": "invoke_agent"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}


def _family(*spans: ReceivedSpan) -> AgentTree:
    family = AgentTree()
    for one in spans:
        family.add(one)
    return family


def test_a_call_below_two_agents_is_of_the_lower_one() -> None:
    call = new_span(5, chat_attributes(), parent=4)
    family = _family(
        call,
        new_span(4, {**AGENT, "gen_ai.agent.name": "Scout"}, parent=3),
        new_span(3, TOOL, parent=2),
        new_span(2, {**AGENT, "gen_ai.agent.name": "Chief", "gen_ai.conversation.id": "conv"}),
    )
    standing = family.locate(call)
    assert standing.is_settled
    assert standing.hints.agent == f"{4:016x}"
    assert (standing.hints.name, standing.hints.session) == ("Scout", "conv")
    assert standing.hints.client == "shop"


def test_the_first_agent_of_a_run_is_known_by_what_it_reads() -> None:
    call = new_span(3, chat_attributes(), parent=2)
    hints = _family(call, new_span(2, {**AGENT, "gen_ai.agent.name": "Chief"})).locate(call).hints
    assert (hints.agent, hints.name) == ("", "Chief")


def test_an_agent_two_levels_down_names_the_one_above_it() -> None:
    call = new_span(9, chat_attributes(), parent=4)
    agents = [new_span(n, AGENT, parent=n - 1 if n > 2 else None) for n in (2, 3, 4)]
    hints = _family(call, *agents).locate(call).hints
    assert (hints.agent, hints.parent) == (f"{4:016x}", f"{3:016x}")


def test_a_call_is_not_settled_before_all_above_it_has_come() -> None:
    call, above = new_span(5, chat_attributes(), parent=4), new_span(4, AGENT, parent=3)
    family = _family(call)
    assert not family.locate(call).is_settled
    family.add(above)
    assert not family.locate(call).is_settled
    family.add(new_span(3, AGENT))
    assert family.locate(call).is_settled


def test_spans_that_are_each_others_parents_end_somewhere() -> None:
    call = new_span(2, chat_attributes(), parent=3)
    family = _family(call, new_span(3, AGENT, parent=2))
    assert family.locate(call).is_settled


def test_a_conversation_that_goes_on_in_another_trace_is_the_same_run() -> None:
    family = AgentTree()
    first = [Message("system", "s"), Message("user", "hi")]
    answer = Message("assistant", "Hello.")
    assert family.assign_run("trace-1", first, [answer]) == "trace-1"
    later = [*first, answer, Message("user", "and?")]
    assert family.assign_run("trace-2", later, [Message("assistant", "So.")]) == "trace-1"


def test_two_conversations_that_begin_alike_are_two_runs() -> None:
    family = AgentTree()
    first = [Message("system", "s"), Message("user", "hi")]
    assert family.assign_run("trace-1", first, []) == "trace-1"
    assert family.assign_run("trace-2", first, []) == "trace-2"


def test_what_is_remembered_is_bounded() -> None:
    family = AgentTree(most_spans=10, most_contexts=10)
    for number in range(1, 100):
        family.add(new_span(number, AGENT))
        family.assign_run(str(number), [Message("user", str(number))], [])
    assert len(family._spans) == len(family._runs) == 10
