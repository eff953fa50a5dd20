"""Examples 1 and 2 of the specification [S0], without sums and with shortened texts.

Example 1 logs two results for `c3`. Example 2 is an excerpt: its agents have no creation event.
"""

from __future__ import annotations

from typing import Any

ROOT, JACK, JILL, INNER = "agent_root", "agent_jack", "agent_jill", "agent_jill_inner"
CAFE = "You meet in a cafe. Introduce yourselves."
HI = "Hi, I'm Jack. *extends hand*"
HELLO = "*smiles* Hello Jack, I'm Jill."
ASIDE = "Jack just introduced himself. What should I say?"
ADVICE = "Be friendly but not over-eager. A simple greeting with a smile."

Line = dict[str, Any]


def _agent_created(number: int, agent: str, **members: Any) -> Line:
    return {
        "message_id": f"msg_{number:03d}",
        "event_type": "agent_created",
        "agent_id": agent,
        "language_model": "anthropic/claude-sonnet-4-5-20250929",
        **members,
    }


def _entry(number: int, agent: str, role: str, content: str | None = None, **members: Any) -> Line:
    line = {
        "message_id": f"msg_{number:03d}",
        "event_type": "transcript_entry",
        "agent_id": agent,
        "role": role,
    }
    return {**line, **({} if content is None else {"content": content}), **members}


def _call(number: int, agent: str, id_: str, tool: str, arguments: str) -> Line:
    calls = [{"id": id_, "function": {"name": tool, "arguments": arguments}}]
    return _entry(number, agent, "assistant", tool_calls=calls)


def _piece(number: int, agent: str, content: str, cause: str) -> Line:
    return {
        "message_id": f"msg_{number:03d}",
        "event_type": "piece_of_text",
        "agent_id": agent,
        "content": content,
        "cause": cause,
    }


EXAMPLE_1: list[Line] = [
    _agent_created(1, ROOT),
    _entry(2, ROOT, "user", "Create Jack and Jill for a cafe discussion"),
    _call(3, ROOT, "c1", "task", '{"name": "Jack", "system_prompt": "You work in HR..."}'),
    _agent_created(4, JACK, cause="msg_003", name="Jack"),
    _entry(5, JACK, "system", "You work in HR..."),
    _entry(6, ROOT, "tool", "Created subagent: Jack", tool_call_id="c1"),
    _call(7, ROOT, "c2", "task", '{"name": "Jill"}'),
    _agent_created(8, JILL, cause="msg_007", name="Jill"),
    _entry(9, JILL, "system", "You are an aspiring author..."),
    _entry(10, ROOT, "tool", "Created subagent: Jill", tool_call_id="c2"),
    _call(11, ROOT, "c3", "discuss", '{"prompt": "You meet...", "speakers": ["Jack", "Jill"]}'),
    _piece(12, ROOT, CAFE, "msg_011"),
    _entry(13, JACK, "user", CAFE, substance="msg_012"),
    _entry(14, JILL, "user", CAFE, substance="msg_012"),
    _entry(15, JACK, "assistant", HI),
    _entry(16, ROOT, "tool", HI, tool_call_id="c3"),
    _entry(17, JILL, "user", f"[Jack]: {HI}", substance="msg_015"),
    _entry(18, JILL, "assistant", HELLO),
    _entry(19, ROOT, "tool", HELLO, tool_call_id="c3"),
    _entry(20, JACK, "user", f"[Jill]: {HELLO}", substance="msg_018"),
]

EXAMPLE_2: list[Line] = [
    _call(30, JILL, "c4", "task", '{"name": "Inner"}'),
    _agent_created(31, INNER, cause="msg_030", name="Inner"),
    _entry(32, INNER, "system", "You are Jill's inner voice..."),
    _entry(33, JILL, "user", f"[Jack]: {HI}", substance="msg_015"),
    _call(34, JILL, "c5", "discuss", '{"speakers": ["Inner"]}'),
    _piece(35, JILL, ASIDE, "msg_034"),
    _entry(36, INNER, "user", ASIDE, substance="msg_035"),
    _entry(37, INNER, "assistant", ADVICE),
    _entry(38, JILL, "tool", ADVICE, tool_call_id="c5"),
    _entry(39, JILL, "assistant", HELLO),
]
