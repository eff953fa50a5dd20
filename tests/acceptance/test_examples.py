"""The examples of the specification (session-log.md, "Concrete Examples"), played again.

Each is compared with its listing there: the events, in order, with their links. Three things
differ on purpose: one call has one result, so that of c3 comes once, at the end;
ids are allocated; and the log holds more kinds of events, which are left out here.
"""

from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harken import Deny, Hook, HookQuestion, Ok, Rewrite, SessionViewer, register_agent_class
from harken.agents.agent import get_agent
from harken.core.verdict import Verdict
from harken.views.interventions import interventions
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    open_stage,
    request_texts,
    run,
    script_model,
)

Event: TypeAlias = tuple[str, str, str, str | None]
"""What it is, whose, what it says, and what it points to (by position in the list)."""
CAFE = "You meet in a cafe. Introduce yourselves."
HI, HELLO = "Hi, I'm Jack. *extends hand*", "*smiles* Hello Jack, I'm Jill."
ASIDE = "Jack just introduced himself. What should I say?"
ADVICE = "Be friendly but not over-eager. A simple greeting with a smile."


def listing(stage: Stage, *agents: str) -> list[Event]:
    """Return the entries, pieces and births of some agents, with links as positions."""
    names = {stage.id_of(agent): agent for agent in agents}
    kinds = ("agent_created", "transcript_entry", "piece_of_text")
    rows = [r for r in stage.select_lines() if r["event_type"] in kinds and r["agent_id"] in names]
    places = {row["message_id"]: str(number) for number, row in enumerate(rows)}
    events: list[Event] = []
    for row in rows:
        kind = row.get("role", row["event_type"].partition("_")[0])
        says = row.get("content") or row.get("name", "")
        tool_calls = row.get("tool_calls")
        if tool_calls:
            says = f"{tool_calls[0]['id']} {tool_calls[0]['function']['name']}"
        link = None
        for name in ("substance", "cause"):
            if name in row:
                to = row[name] if isinstance(row[name], list) else [row[name]]
                link = f"{name} {' '.join(places.get(id_, 'elsewhere') for id_ in to)}"
        if kind == "tool":
            says = f"{row['tool_call_id']}: {says}"
        events.append((kind, names[row["agent_id"]], says, link))
    return events


def cafe(folder: Path, **parts: Any) -> Stage:
    script: dict[str, Any] = {
        "main": [
            call_message(call("task", "c1", name="Jack", system_prompt="You work in HR...")),
            call_message(
                call("task", "c2", name="Jill", system_prompt="You are an aspiring author...")
            ),
            call_message(call("discuss", "c3", prompt=CAFE, speakers=["Jack", "Jill"])),
            "They have met.",
        ],
        "Jack": [HI],
        "Jill": [HELLO],
    }
    stage = open_stage(folder, script_model(**{**script, **parts}), system_prompt=None)
    assert stage.ask("Create Jack and Jill for a cafe discussion") == "They have met."
    return stage


@pytest.mark.req("S0-51", "S0-16", "S0-17")
def test_example_1_jack_and_jill(tmp_path: Path) -> None:
    stage = cafe(tmp_path)
    assert listing(stage, "main", "Jack", "Jill") == [
        ("agent", "main", "main", None),
        ("user", "main", "Create Jack and Jill for a cafe discussion", None),
        ("assistant", "main", "c1 task", None),
        ("agent", "Jack", "Jack", "cause 2"),
        ("system", "Jack", "You work in HR...", "cause 2"),
        ("tool", "main", "c1: Created subagent: Jack", None),
        ("assistant", "main", "c2 task", None),
        ("agent", "Jill", "Jill", "cause 6"),
        ("system", "Jill", "You are an aspiring author...", "cause 6"),
        ("tool", "main", "c2: Created subagent: Jill", None),
        ("assistant", "main", "c3 discuss", None),
        ("piece", "main", CAFE, "cause 10"),
        ("user", "Jack", CAFE, "substance 11"),
        ("user", "Jill", CAFE, "substance 11"),
        ("assistant", "Jack", HI, None),
        ("user", "Jill", f"[Jack]: {HI}", "substance 14"),
        ("assistant", "Jill", HELLO, None),
        ("user", "Jack", f"[Jill]: {HELLO}", "substance 16"),
        ("tool", "main", f"c3: [Jack]: {HI}\n\n[Jill]: {HELLO}", "cause 14 16"),
        ("assistant", "main", "They have met.", None),
    ]
    check_log(stage.log)
    dialog = SessionViewer(stage.log).extract_dialog(["Jack", "Jill"])
    assert [item["content"] for item in dialog] == [CAFE, HI, HELLO]


@pytest.mark.req("S0-51", "S0-31")
def test_example_1_resumes_and_goes_on(tmp_path: Path) -> None:
    stage = cafe(tmp_path, Jack=[HI, "What do you write?"], Jill=[HELLO, "A story."])
    live = full_state(stage.session)
    later = stage.resume(
        script_model(
            main=["-"] * 4
            + [call_message(call("discuss", "c4", prompt="Go on.")), "They went on."],
            Jack=["-", "What do you write?"],
            Jill=["-", "A story."],
        )
    )
    assert full_state(later.session) == live
    assert later.ask("More.") == "They went on."
    assert later.result("c4")["content"] == "[Jack]: What do you write?\n\n[Jill]: A story."
    check_log(later.log)


def with_inner(folder: Path) -> Stage:
    jill = [
        call_message(
            call("task", "c4", name="Inner", system_prompt="You are Jill's inner voice...")
        ),
        call_message(call("discuss", "c5", speakers=["Inner"], prompt=ASIDE)),
        HELLO,
    ]
    return cafe(folder, Jill=jill, Inner=[ADVICE])


@pytest.mark.req("S0-52")
def test_example_2_an_inner_voice(tmp_path: Path) -> None:
    stage = with_inner(tmp_path)
    assert listing(stage, "Jill", "Inner")[2:] == [
        ("user", "Jill", CAFE, "substance elsewhere"),
        ("user", "Jill", f"[Jack]: {HI}", "substance elsewhere"),
        ("assistant", "Jill", "c4 task", None),
        ("agent", "Inner", "Inner", "cause 4"),
        ("system", "Inner", "You are Jill's inner voice...", "cause 4"),
        ("tool", "Jill", "c4: Created subagent: Inner", None),
        ("assistant", "Jill", "c5 discuss", None),
        ("piece", "Jill", ASIDE, "cause 8"),
        ("user", "Inner", ASIDE, "substance 9"),
        ("assistant", "Inner", ADVICE, None),
        ("tool", "Jill", f"c5: {ADVICE}", "substance 11"),
        ("assistant", "Jill", HELLO, None),
    ]
    check_log(stage.log)


@pytest.mark.req("S0-52")
def test_example_2_only_jill_receives_her_inner_voice(tmp_path: Path) -> None:
    stage = with_inner(tmp_path)
    [advice] = stage.select_lines(content=ADVICE, role="assistant")
    [reference] = SessionViewer(stage.log).trace_content_references(advice["message_id"])
    assert reference["agent_id"] == stage.id_of("Jill")
    for row in [
        *stage.select_lines(agent_id=stage.id_of("Jack")),
        *stage.select_lines(agent_id=stage.id_of("main")),
    ]:
        assert ADVICE not in str(row.get("content"))
        assert ASIDE not in str(row.get("content"))
    for request in stage.runtime.model.requests:  # type: ignore[union-attr]
        assert (ADVICE in " ".join(request_texts(request))) <= (request.agent == "Jill")


@pytest.mark.req("S0-52")
def test_example_2_view_shows_received_thought_and_sent_messages(tmp_path: Path) -> None:
    stage = with_inner(tmp_path)
    dialog = SessionViewer(stage.log).extract_dialog(["Jill", "Inner"])
    assert [item["content"] for item in dialog] == [CAFE, f"[Jack]: {HI}", ASIDE, ADVICE, HELLO]


@register_agent_class("test-resource-monitor")
class ResourceMonitor(Hook):
    """Allows an agent three subagents."""

    def judge(self, question: HookQuestion) -> Verdict:
        if question.call is None or question.call.function.name != "task":
            return Ok()
        watched = get_agent(self, self.state.parent or "")
        if len(watched.subagents) >= 3:
            return Deny("Maximum subagents (3) already reached.")
        return Ok()


@pytest.mark.req("S0-53")
def test_example_3_a_hook_denies_a_task(tmp_path: Path) -> None:
    messages = [call_message(call("task", f"c{n}", name=f"Searcher{n}")) for n in range(1, 5)]
    stage = open_stage(tmp_path, script_model(main=[*messages, "I have three searchers."]))
    hook = ResourceMonitor(stage.session, runtime=stage.runtime).install(
        stage.root, "ResourceMonitor"
    )
    assert stage.ask("Search.") == "I have three searchers."
    assert stage.result("c4")["content"] == (
        "Error: Action blocked by hook 'ResourceMonitor': Maximum subagents (3) already reached."
    )
    births = [
        row["name"] for row in stage.select_lines(event_type="agent_created", relation="subagent")
    ]
    assert births == ["Searcher1", "Searcher2", "Searcher3"]
    [denial] = stage.select_lines(event_type="hook_verdict", verdict="deny")
    question, verdict = [
        message
        for message in SessionViewer(stage.log).get_transcript(hook.agent_id)
        if "Searcher4" in message["content"] or "DENY" in message["content"]
    ]
    assert (question["role"], verdict["role"]) == ("user", "assistant")
    assert (denial["agent_id"], denial["subject"]) == (hook.agent_id, question["cause"])
    assert (verdict["message_id"], verdict["cause"]) == (
        denial["message_id"],
        question["message_id"],
    )
    assert "main" in question["content"]
    assert "task" in question["content"]
    assert verdict["content"] == "DENY: Maximum subagents (3) already reached."
    [made_4] = [
        r for r in stage.select_lines(role="assistant") if "Searcher4" in str(r.get("tool_calls"))
    ]
    assert question["cause"] == made_4["message_id"]
    assert denial["text"] == "Maximum subagents (3) already reached."
    check_log(stage.log)
    live = full_state(stage.session)
    assert full_state(stage.resume().session) == live


@pytest.mark.req("S0-54")
def test_example_4_an_external_event(tmp_path: Path) -> None:
    advice = "I'll reload the data and notify the main agent."
    stage = open_stage(
        tmp_path,
        script_model(main=[call_message(call("task", name="Watcher")), "-"], Watcher=[advice]),
    )
    stage.ask("Watch data.json.")
    watcher = stage.root.subagents["Watcher"]
    watcher.harken("File changed: data.json")
    assert run(watcher.response()) == advice
    assert listing(stage, "Watcher")[1:] == [
        ("user", "Watcher", "File changed: data.json", None),
        ("assistant", "Watcher", advice, None),
    ]


@register_agent_class("test-redactor")
class Redactor(Hook):
    """Keeps passwords from others."""

    def judge(self, question: HookQuestion) -> Verdict:
        if question.point == "response" and "1234" in question.text:
            return Rewrite(question.text.replace("1234", "[REDACTED]"))
        return Ok()


@pytest.mark.req("S0-50", "S0-14")
def test_hook_transparency_shows_original_and_delivered_message(tmp_path: Path) -> None:
    script = {"Jack": ["password: 1234"], "Jill": ["Thanks."]}
    stage = open_stage(
        tmp_path,
        script_model(
            main=[
                call_message(call("task", "c1", name="Jack"), call("task", "c2", name="Jill")),
                call_message(call("discuss", "c3", prompt="Talk.", speakers=["Jack", "Jill"])),
                "The password is 1234.",
            ],
            **script,
        ),
    )
    Redactor(stage.session, runtime=stage.runtime).install(stage.root, "redactor")
    assert stage.ask("Go.") == "The password is [REDACTED]."
    stage.session.close()
    events = interventions(SessionViewer(stage.log).events)
    assert [(row.name, row.proposed, row.heard_by_name, row.became) for row in events] == [
        ("Jack", "password: 1234", "Jill", "[Jack]: password: [REDACTED]"),
        ("main", "The password is 1234.", "user", "The password is [REDACTED]."),
    ]
    [jill] = [
        item
        for item in SessionViewer(stage.log).extract_dialog(["Jill"])
        if "password" in item["content"]
    ]
    assert "1234" not in jill["content"]
