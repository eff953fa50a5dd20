"""Tools that let agents talk in ways of their own, with the public API alone (S1, "Tool Agnosticism").

Whoever carries a text on says what it represents by its LoggedString; whoever makes a new one
logs it as a piece. Then all views show it, though they know nothing of the tool.
"""

from pathlib import Path

import pytest

from harken import Agent, LoggedString, SessionViewer, ToolContext, tool
from tests.agent_kit import (
    Stage,
    call,
    call_message,
    check_log,
    full_state,
    open_stage,
    script_model,
)


def last_said(agent: Agent) -> LoggedString:
    """Return the last thing that an agent said, as what it is."""
    message = agent.transcript[-1]
    return LoggedString(message["content"], message["message_id"])


@tool
async def whisper(from_name: str, to_name: str, caller: ToolContext) -> str:
    """Let one subagent hear what another said last, and nobody else."""
    speaker = caller.agent.subagents[from_name]
    speaker.inform(caller.agent.subagents[to_name], last_said(speaker).as_said_by(from_name))
    return f"whispered to {to_name}"


@tool
async def translate(text: str, to_names: list[str], caller: ToolContext) -> str:
    """Let subagents hear a text in capitals."""
    agent = caller.agent
    piece = agent.session.log_piece_of_text(agent.agent_id, text.upper(), caller.call)
    for name in to_names:
        agent.inform(agent.subagents[name], LoggedString(text.upper(), piece))
    return text.upper()


@tool
async def broadcast(from_name: str, caller: ToolContext) -> LoggedString:
    """Let all others hear what one said last; the result is what he said."""
    speaker = caller.agent.subagents[from_name]
    message = last_said(speaker)
    for name, agent_ in caller.agent.subagents.items():
        if name != from_name:
            speaker.inform(agent_, message.as_said_by(from_name))
    return message


def party(folder: Path, *steps: object) -> Stage:
    names = ("Jack", "Jill", "Joe")
    model = script_model(
        main=[
            call_message(*(call("task", f"t{n}", name=n, prompt="Say hi.") for n in names)),
            *(call_message(step) for step in steps),  # type: ignore[arg-type]
            "Done.",
        ],
        **{name: [f"Hi from {name}.", f"{name} heard."] for name in names},
    )
    stage = open_stage(folder, model, tools=[whisper, translate, broadcast])
    assert stage.ask("Go.") == "Done."
    check_log(stage.log)
    return stage


@pytest.mark.req("S1-10", "S0-49")
def test_a_whisper_logs_no_piece_and_its_substance_is_the_original(tmp_path: Path) -> None:
    stage = party(tmp_path, call("whisper", from_name="Jack", to_name="Jill"))
    [original] = stage.select_lines(content="Hi from Jack.", role="assistant")
    received = stage.select_lines(content="[Jack]: Hi from Jack.")
    assert [(row["agent_id"], row["substance"]) for row in received] == [
        (stage.id_of("Jill"), original["message_id"])
    ]
    assert len(stage.select_lines(event_type="piece_of_text")) == 3  # the prompts of the tasks
    dialog = SessionViewer(stage.log).extract_dialog(["Jack", "Jill"])
    assert [item["content"] for item in dialog].count("Hi from Jack.") == 1
    assert SessionViewer(stage.log).extract_dialog(["Joe"])[-1]["content"] == "Hi from Joe."


@pytest.mark.req("S1-10", "S0-49")
def test_a_translation_is_a_piece_caused_by_the_call_and_entries_point_to_it(
    tmp_path: Path,
) -> None:
    stage = party(tmp_path, call("translate", text="good day", to_names=["Jack", "Jill"]))
    [piece_] = [
        r for r in stage.select_lines(role="assistant") if "translate" in str(r.get("tool_calls"))
    ]
    [piece] = stage.select_lines(event_type="piece_of_text", content="GOOD DAY")
    assert (piece["cause"], piece["agent_id"]) == (piece_["message_id"], stage.root.agent_id)
    assert "substance" not in piece
    received = stage.select_lines(substance=piece["message_id"])
    assert [(row["agent_id"], row["content"]) for row in received] == [
        (stage.id_of("Jack"), "GOOD DAY"),
        (stage.id_of("Jill"), "GOOD DAY"),
    ]
    references = SessionViewer(stage.log).trace_content_references(piece["message_id"])
    assert {row["agent_id"] for row in references} == {stage.id_of("Jack"), stage.id_of("Jill")}
    dialog = SessionViewer(stage.log).extract_dialog(["Jack", "Jill"])
    assert [item["content"] for item in dialog].count("GOOD DAY") == 1


@pytest.mark.req("S1-10")
def test_the_result_of_a_tool_may_represent_a_message(tmp_path: Path) -> None:
    stage = party(tmp_path, call("broadcast", from_name="Joe"))
    [original] = stage.select_lines(content="Hi from Joe.", role="assistant")
    result = stage.result()
    assert (result["content"], result["substance"]) == ("Hi from Joe.", original["message_id"])
    received = stage.select_lines(content="[Joe]: Hi from Joe.")
    assert {row["agent_id"] for row in received} == {stage.id_of("Jack"), stage.id_of("Jill")}


@pytest.mark.req("S1-10", "S0-31")
def test_effects_of_custom_tools_survive_a_resume(tmp_path: Path) -> None:
    stage = party(
        tmp_path,
        call("whisper", from_name="Jack", to_name="Jill"),
        call("translate", text="x", to_names=["Joe"]),
    )
    live = full_state(stage.session)
    assert full_state(stage.resume().session) == live


@pytest.mark.req("S4-03", "S1-10")
@pytest.mark.parametrize("reference", ["msg_999", "not an id"])
def test_result_with_an_unknown_substance_is_text(tmp_path: Path, reference: str) -> None:
    @tool
    async def claim() -> str:
        """Claim."""
        return LoggedString("I was said.", reference)

    stage = open_stage(
        tmp_path, script_model(main=[call_message(call("claim")), "Done."]), tools=[claim]
    )
    assert stage.ask("Go.") == "Done."
    assert stage.result()["content"] == "I was said."
    assert "substance" not in stage.result()
    check_log(stage.log)


@pytest.mark.req("S4-03", "S1-10")
@pytest.mark.parametrize("by", ["message_id", "substance"])
def test_agent_can_forward_a_received_message(tmp_path: Path, by: str) -> None:
    """What an agent heard is a copy: only its original can be represented."""
    holder: list[Agent] = []

    @tool
    async def repeat(name: str) -> str:
        """Repeat what a subagent heard last."""
        received = next(
            m for m in reversed(holder[0].subagents[name].transcript) if m["role"] == "user"
        )
        return LoggedString(received["content"], received[by])

    model = script_model(
        main=[
            call_message(call("task", "t", name="Ann", prompt="Hi?")),
            call_message(call("repeat", name="Ann")),
            "Done.",
        ],
        Ann=["Hi."],
    )
    stage = open_stage(tmp_path, model, tools=[repeat])
    holder.append(stage.root)
    assert stage.ask("Go.") == "Done."
    assert stage.result()["content"] == "Hi?"
    [piece] = stage.select_lines(event_type="piece_of_text")
    assert stage.result().get("substance") == (piece["message_id"] if by == "substance" else None)
    check_log(stage.log)
