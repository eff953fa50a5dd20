"""Assignment of model calls to agents by their surrounding spans."""

from __future__ import annotations

from harken.capture.otlp.agent_tree import AgentTree
from harken.capture.otlp.span import ReceivedSpan
from harken.core.messages import Message
from tests.otlp_kit import chat_attributes, new_span

AGENT = {"gen_ai.operation.name": "invoke_agent"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}


def _family(*spans: ReceivedSpan) -> AgentTree:
    family = AgentTree()
    for item in spans:
        family.add(item)
    return family


def test_call_below_two_agents_belongs_to_the_lower_one() -> None:
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


def test_first_agent_of_a_run_is_identified_by_its_input() -> None:
    call = new_span(3, chat_attributes(), parent=2)
    hints = _family(call, new_span(2, {**AGENT, "gen_ai.agent.name": "Chief"})).locate(call).hints
    assert (hints.agent, hints.name) == ("", "Chief")


def test_nested_agent_names_its_parent_agent() -> None:
    call = new_span(9, chat_attributes(), parent=4)
    agents = [new_span(n, AGENT, parent=n - 1 if n > 2 else None) for n in (2, 3, 4)]
    hints = _family(call, *agents).locate(call).hints
    assert (hints.agent, hints.parent) == (f"{4:016x}", f"{3:016x}")


def test_call_is_pending_until_all_ancestors_have_arrived() -> None:
    call, above = new_span(5, chat_attributes(), parent=4), new_span(4, AGENT, parent=3)
    family = _family(call)
    assert not family.locate(call).is_settled
    family.add(above)
    assert not family.locate(call).is_settled
    family.add(new_span(3, AGENT))
    assert family.locate(call).is_settled


def test_cyclic_span_parents_terminate() -> None:
    call = new_span(2, chat_attributes(), parent=3)
    family = _family(call, new_span(3, AGENT, parent=2))
    assert family.locate(call).is_settled


def test_conversation_continued_in_another_trace_is_the_same_run() -> None:
    family = AgentTree()
    first = [Message("system", "s"), Message("user", "hi")]
    answer = Message("assistant", "Hello.")
    assert family.assign_run("trace-1", first, [answer]) == "trace-1"
    later = [*first, answer, Message("user", "and?")]
    assert family.assign_run("trace-2", later, [Message("assistant", "So.")]) == "trace-1"


def test_conversations_with_equal_beginnings_are_separate_runs() -> None:
    family = AgentTree()
    first = [Message("system", "s"), Message("user", "hi")]
    assert family.assign_run("trace-1", first, []) == "trace-1"
    assert family.assign_run("trace-2", first, []) == "trace-2"


def test_memory_of_the_tree_is_bounded() -> None:
    family = AgentTree(most_spans=10, most_contexts=10)
    for number in range(1, 100):
        family.add(new_span(number, AGENT))
        family.assign_run(str(number), [Message("user", str(number))], [])
    assert len(family._spans) == len(family._runs) == 10
