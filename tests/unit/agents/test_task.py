"""`task`: a subagent with a name, instructions, and a memory of its own."""

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, LocalWorld, SmartAgent, tool
from harken.agents.agent import log_birth
from harken.core.messages import Message
from harken.world.files.root import Root
from harken.world.files.tools import file_tools
from harken.world.permissions.permissions import Permissions
from harken.world.permissions.rules import PermissionRules
from tests.agent_kit import call, call_message, open_stage, request_texts, run, script_model
from tests.unit.agents.tree_kit import among, told_to


@pytest.mark.req("S4-08")
def test_a_task_makes_a_subagent_with_these_instructions(tmp_path: Path) -> None:
    one = among(tmp_path, names="Jack")
    assert one.result("tJack")["content"] == "Created subagent: Jack"
    jack = one.root.subagents["Jack"]
    assert [m["content"] for m in jack.transcript] == ["You are Jack."]
    assert jack._language_model == one.root._language_model
    [birth] = one.select_lines(event_type="agent_created", name="Jack")
    [made] = [row for row in one.select_lines(role="assistant") if "tool_calls" in row]
    assert (birth["cause"], birth["relation"]) == (made["message_id"], "subagent")
    [prompt] = one.select_lines(role="system", agent_id=jack.agent_id)
    assert prompt["cause"] == made["message_id"]


@pytest.mark.req("S4-08", "S0-16")
@pytest.mark.parametrize("word", ["prompt", "user_prompt"])
@pytest.mark.parametrize("instructions", ["instructions", "system_prompt"])
def test_a_task_with_a_prompt_returns_the_answer(
    tmp_path: Path, word: str, instructions: str
) -> None:
    made = call("task", **{"name": "Ann", instructions: "You are Ann.", word: "Tea or coffee?"})
    one = open_stage(
        tmp_path, script_model(main=[call_message(made), "Ann wants tea."], Ann=["Tea."])
    )
    one.ask("Go.")
    [said] = one.select_lines(role="assistant", agent_id=one.id_of("Ann"))
    result = one.result()
    assert (result["content"], result["substance"]) == ("Tea.", said["message_id"])
    [piece] = one.select_lines(event_type="piece_of_text")
    [heard] = one.select_lines(role="user", agent_id=one.id_of("Ann"))
    assert (heard["content"], heard["substance"]) == ("Tea or coffee?", piece["message_id"])
    assert one.agent("Ann").transcript[0]["content"] == "You are Ann."


@pytest.mark.req("S4-08")
def test_instructions_come_from_a_file_as_it_is_when_used(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    file = tmp_path / "files" / "ann.md"
    file.write_text("old")

    @tool
    def edit(text: str) -> str:
        """Edit the file."""
        file.write_text(text)
        return "edited"

    ann = call("task", name="Ann", instructions="file:ann.md")
    model = script_model(
        main=[call_message(call("edit", text="You are Änn.")), call_message(ann), "Done."]
    )
    runtime = AgentRuntime(model=model, world=LocalWorld([edit], folder=tmp_path / "files"))
    one = open_stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    assert one.agent("Ann").transcript[0]["content"] == "You are Änn."


@pytest.mark.req("S4-05")
def test_what_may_not_be_read_cannot_be_instructions_either(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=sk-123")
    (tmp_path / "ann.md").write_text("You are Ann.")
    made = [call("task", name=name, instructions=f"file:{name}") for name in (".env", "ann.md")]
    model = script_model(main=[*map(call_message, made), "Done."])
    permissions = Permissions("all", PermissionRules.parse(deny=["read(**/.env)"]))
    tools = file_tools(Root(tmp_path))
    world = LocalWorld(tools, folder=tmp_path, permissions=permissions)
    one = open_stage(tmp_path, model, runtime=AgentRuntime(model=model, world=world))
    one.ask("Go.")
    assert one.root.subagents.keys() == {"ann.md"}
    assert "TOKEN" not in one.log.read_text()


@pytest.mark.req("S4-09")
@pytest.mark.parametrize("path", ["nobody.md", "../secret", "/etc/passwd", ".", "latin"])
def test_instructions_that_cannot_be_read_create_nobody(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "latin").write_bytes(b"\xe4")
    model = script_model(
        main=[call_message(call("task", name="Ann", instructions=f"file:{path}")), "No."]
    )
    runtime = AgentRuntime(model=model, world=LocalWorld(folder=folder))
    one = open_stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    assert one.result()["content"].startswith(f"Error: instructions file:{path} cannot be read")
    assert list(one.session.agents) == [one.root.agent_id]


@pytest.mark.req("S4-09")
def test_a_taken_name_is_an_error_and_creates_nobody(tmp_path: Path) -> None:
    again = call("task", name="Jack", instructions="You are another Jack.", prompt="Hi?")
    one = among(tmp_path, again, names="Jack")
    assert one.result()["content"].startswith("Error: subagent 'Jack' exists")
    assert len(one.session.agents) == 2
    assert one.user_messages("Jack") == []


@pytest.mark.req("S4-09")
def test_of_two_tasks_with_one_name_in_one_message_the_second_fails(tmp_path: Path) -> None:
    two = call_message(call("task", "a", name="Ann"), call("task", "b", name="Ann"))
    one = open_stage(tmp_path, script_model(main=[two, "Done."]))
    one.ask("Go.")
    assert one.result("a")["content"] == "Created subagent: Ann"
    assert "exists" in one.result("b")["content"]


@pytest.mark.req("S4-17")
def test_the_name_of_a_terminated_agent_is_free_again(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        call("terminate", name="Jack"),
        call("task", "c2", name="Jack", instructions="You are a new Jack."),
        names="Jack",
    )
    ids = [row["agent_id"] for row in one.select_lines(event_type="agent_created", name="Jack")]
    assert ids == ["agent_002", "agent_003"]
    assert one.root.subagents["Jack"].agent_id == "agent_003"


@pytest.mark.req("S4-10")
def test_a_subagent_that_asks_for_more_goes_on_with_its_memory(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", name="Ann", instructions="You are Ann.", prompt="Book it.")),
            call_message(call("discuss", "c2", prompt="Friday.")),
            "Booked.",
        ],
        Ann=["For which day?", "Booked for Friday."],
    )
    one = open_stage(tmp_path, model)
    assert one.ask("Book a table.") == "Booked."
    assert told_to(one, "Ann")[1] == ["Book it.", "For which day?", "Friday."]
    assert one.result("c2")["content"] == "Booked for Friday."


@pytest.mark.req("S4-10")
def test_a_diary_remembers_across_turns_and_a_resume(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(
                call("task", name="Diary", instructions="Remember.", prompt="I like blue.")
            ),
            "Noted.",
            call_message(call("discuss", prompt="What do I like?")),
            "Blue.",
        ],
        Diary=["Noted.", lambda request: request_texts(request)[1]],
    )
    one = open_stage(tmp_path, model)
    one.ask("I like blue.")
    later = one.resume()
    assert later.ask("What do I like?") == "Blue."
    assert [r["content"] for r in later.select_lines(role="tool")] == ["Noted.", "I like blue."]


@pytest.mark.req("S4-53")
def test_what_an_agent_says_can_be_the_instructions_of_another(tmp_path: Path) -> None:
    def hire(request: Any) -> Message:
        return call_message(call("task", "c2", name="New", instructions=request_texts(request)[-1]))

    model = script_model(
        main=[call_message(call("task", name="Author", prompt="Write a prompt.")), hire, "Hired."],
        Author=["You are a pirate."],
    )
    one = open_stage(tmp_path, model)
    one.ask("Go.")
    assert one.agent("New").transcript[0]["content"] == "You are a pirate."


@pytest.mark.req("S4-53")
def test_a_response_itself_can_be_a_system_prompt(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["You are a pirate."], pirate=["Arr."]))
    said = run(one.root.response("Write a prompt."))
    pirate = SmartAgent(one.session, said, runtime=one.runtime)
    log_birth(pirate, one.root.state.birth, "pirate", "subagent")
    assert run(pirate.response("Hello")) == "Arr."
    assert pirate.transcript[0]["content"] == "You are a pirate."
    later = one.resume()
    assert later.agent("pirate").transcript[0]["content"] == "You are a pirate."
