"""`task`, `discuss`, `terminate`: a tree of agents, and talk that goes only along it."""

from pathlib import Path
from typing import Any

import pytest

from harken import DumbAgent, Runtime, SmartAgent, World, register, tool
from harken.core.messages import Message, ToolCall
from tests.agent_kit import Play, Stage, call, calls, check_log, everything, play, run, stage, told


def told_to(one: Stage, agent: str) -> list[list[str]]:
    """Return what each model call of an agent saw, without its system prompt."""
    assert isinstance(one.runtime.model, Play)
    return [told(request)[1:] for request in one.runtime.model.asked_of(agent)]


def people(*names: str) -> Message:
    """Return a message that creates subagents."""
    return calls(*(call("task", f"t{n}", name=n, instructions=f"You are {n}.") for n in names))


def among(folder: Path, *steps: ToolCall, names: str = "Jack Jill", **parts: Any) -> Stage:
    """Return a stage where main made these people, then took these steps one by one."""
    every = {name: [f"{name} {n}" for n in range(1, 5)] for name in names.split()}
    lines = [people(*names.split()), *(calls(step) for step in steps), "Done."]
    one = stage(folder, play(main=lines, **{**every, **parts}))
    assert one.ask("Go.") == "Done."
    check_log(one.log)
    return one


def talk(_id: str = "c1", **arguments: Any) -> ToolCall:
    return call("discuss", _id, **arguments)


# task


@pytest.mark.req("S4-08")
def test_a_task_makes_a_subagent_with_these_instructions(tmp_path: Path) -> None:
    one = among(tmp_path, names="Jack")
    assert one.result("tJack")["content"] == "Created subagent: Jack"
    jack = one.root.subagent("Jack")
    assert [m["content"] for m in jack.transcript] == ["You are Jack."]
    assert jack.language_model == one.root.language_model
    [birth] = one.rows(event_type="agent_created", name="Jack")
    [made] = [row for row in one.rows(role="assistant") if "tool_calls" in row]
    assert (birth["cause"], birth["relation"]) == (made["message_id"], "subagent")
    [prompt] = one.rows(role="system", agent_id=jack.agent_id)
    assert prompt["cause"] == made["message_id"]


@pytest.mark.req("S4-08", "S0-16")
@pytest.mark.parametrize("word", ["prompt", "user_prompt"])
@pytest.mark.parametrize("instructions", ["instructions", "system_prompt"])
def test_a_task_with_a_prompt_returns_the_answer(
    tmp_path: Path, word: str, instructions: str
) -> None:
    made = call("task", **{"name": "Ann", instructions: "You are Ann.", word: "Tea or coffee?"})
    one = stage(tmp_path, play(main=[calls(made), "Ann wants tea."], Ann=["Tea."]))
    one.ask("Go.")
    [said] = one.rows(role="assistant", agent_id=one.id_of("Ann"))
    result = one.result()
    assert (result["content"], result["substance"]) == ("Tea.", said["message_id"])
    [piece] = one.rows(event_type="piece_of_text")
    [heard] = one.rows(role="user", agent_id=one.id_of("Ann"))
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
    model = play(main=[calls(call("edit", text="You are Änn.")), calls(ann), "Done."])
    runtime = Runtime(model=model, world=World([edit], folder=tmp_path / "files"))
    one = stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    assert one.agent("Ann").transcript[0]["content"] == "You are Änn."


@pytest.mark.req("S4-09")
@pytest.mark.parametrize("path", ["nobody.md", "../secret", "/etc/passwd", ".", "latin"])
def test_instructions_that_cannot_be_read_create_nobody(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "latin").write_bytes(b"\xe4")
    model = play(main=[calls(call("task", name="Ann", instructions=f"file:{path}")), "No."])
    runtime = Runtime(model=model, world=World(folder=folder))
    one = stage(tmp_path, model, runtime=runtime)
    one.ask("Go.")
    assert one.result()["content"].startswith(f"Error: instructions file:{path} cannot be read")
    assert list(one.session.agents) == [one.root.agent_id]


@pytest.mark.req("S4-09")
def test_a_taken_name_is_an_error_and_creates_nobody(tmp_path: Path) -> None:
    again = call("task", name="Jack", instructions="You are another Jack.", prompt="Hi?")
    one = among(tmp_path, again, names="Jack")
    assert one.result()["content"].startswith("Error: there is a subagent 'Jack' already")
    assert len(one.session.agents) == 2
    assert one.heard("Jack") == []


@pytest.mark.req("S4-09")
def test_of_two_tasks_with_one_name_in_one_message_the_second_fails(tmp_path: Path) -> None:
    two = calls(call("task", "a", name="Ann"), call("task", "b", name="Ann"))
    one = stage(tmp_path, play(main=[two, "Done."]))
    one.ask("Go.")
    assert one.result("a")["content"] == "Created subagent: Ann"
    assert "already" in one.result("b")["content"]


@pytest.mark.req("S4-17")
def test_the_name_of_a_terminated_agent_is_free_again(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        call("terminate", name="Jack"),
        call("task", "c2", name="Jack", instructions="You are a new Jack."),
        names="Jack",
    )
    ids = [row["agent_id"] for row in one.rows(event_type="agent_created", name="Jack")]
    assert ids == ["agent_002", "agent_003"]
    assert one.root.subagent("Jack").agent_id == "agent_003"


@pytest.mark.req("S4-10")
def test_a_subagent_that_asks_for_more_goes_on_with_its_memory(tmp_path: Path) -> None:
    model = play(
        main=[
            calls(call("task", name="Ann", instructions="You are Ann.", prompt="Book it.")),
            calls(call("discuss", "c2", prompt="Friday.")),
            "Booked.",
        ],
        Ann=["For which day?", "Booked for Friday."],
    )
    one = stage(tmp_path, model)
    assert one.ask("Book a table.") == "Booked."
    assert told_to(one, "Ann")[1] == ["Book it.", "For which day?", "Friday."]
    assert one.result("c2")["content"] == "Booked for Friday."


@pytest.mark.req("S4-10")
def test_a_diary_remembers_across_turns_and_a_resume(tmp_path: Path) -> None:
    model = play(
        main=[
            calls(call("task", name="Diary", instructions="Remember.", prompt="I like blue.")),
            "Noted.",
            calls(call("discuss", prompt="What do I like?")),
            "Blue.",
        ],
        Diary=["Noted.", lambda request: told(request)[1]],
    )
    one = stage(tmp_path, model)
    one.ask("I like blue.")
    later = one.again()
    assert later.ask("What do I like?") == "Blue."
    assert [r["content"] for r in later.rows(role="tool")] == ["Noted.", "I like blue."]


@pytest.mark.req("S4-53")
def test_what_an_agent_says_can_be_the_instructions_of_another(tmp_path: Path) -> None:
    def hire(request: Any) -> Message:
        return calls(call("task", "c2", name="New", instructions=told(request)[-1]))

    model = play(
        main=[calls(call("task", name="Author", prompt="Write a prompt.")), hire, "Hired."],
        Author=["You are a pirate."],
    )
    one = stage(tmp_path, model)
    one.ask("Go.")
    assert one.agent("New").transcript[0]["content"] == "You are a pirate."


@pytest.mark.req("S4-53")
def test_a_response_itself_can_be_a_system_prompt(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=["You are a pirate."], pirate=["Arr."]))
    said = run(one.root.response("Write a prompt."))
    pirate = SmartAgent(one.session, said, runtime=one.runtime)
    pirate.log_birth(one.root.state.birth, "pirate", "subagent")
    assert run(pirate.response("Hello")) == "Arr."
    assert pirate.transcript[0]["content"] == "You are a pirate."
    later = one.again()
    assert later.agent("pirate").transcript[0]["content"] == "You are a pirate."


# discuss


@pytest.mark.req("S4-11", "S4-12", "S0-16", "S0-17")
def test_speakers_speak_in_turn_and_everybody_else_hears_them(tmp_path: Path) -> None:
    step = talk(prompt="Talk.", speakers=["Jill", "Jack"], listeners=["Joe"])
    one = among(tmp_path, step, names="Jack Jill Joe")
    assert told_to(one, "Jill") == [["Talk."]]
    assert told_to(one, "Jack") == [["Talk.", "[Jill]: Jill 1"]]
    assert told_to(one, "Joe") == []
    assert one.heard("Jill") == ["Talk.", "[Jack]: Jack 1"]
    assert one.heard("Joe") == ["Talk.", "[Jill]: Jill 1", "[Jack]: Jack 1"]


@pytest.mark.req("S0-16")
def test_a_prompt_to_many_is_one_piece_and_an_entry_each(tmp_path: Path) -> None:
    step = talk(prompt="Talk.", speakers=["Jack"], listeners=["Jill", "Joe"])
    one = among(tmp_path, step, names="Jack Jill Joe")
    [piece] = one.rows(event_type="piece_of_text")
    [made] = [
        r for r in one.rows(role="assistant") if r.get("tool_calls", [{}])[0].get("id") == "c1"
    ]
    assert (piece["cause"], piece["agent_id"]) == (made["message_id"], one.root.agent_id)
    heard = one.rows(substance=piece["message_id"])
    assert [row["content"] for row in heard] == ["Talk."] * 3
    assert {row["agent_id"] for row in heard} == {one.id_of(n) for n in ("Jack", "Jill", "Joe")}


@pytest.mark.req("S0-17", "S0-14")
def test_what_a_speaker_said_makes_no_piece_and_keeps_its_substance(tmp_path: Path) -> None:
    step = talk(prompt="Talk.", speakers=["Jack", "Jill"], listeners=["Joe"])
    one = among(tmp_path, step, names="Jack Jill Joe")
    assert len(one.rows(event_type="piece_of_text")) == 1
    [said] = one.rows(content="Jack 1")
    heard = one.rows(substance=said["message_id"])
    assert [(r["agent_id"], r["content"]) for r in heard] == [
        (one.id_of("Jill"), "[Jack]: Jack 1"),
        (one.id_of("Joe"), "[Jack]: Jack 1"),
    ]


@pytest.mark.req("S4-15")
def test_all_talk_has_the_role_user_also_several_in_a_row(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack", "Jill"]))
    assert [m["role"] for m in one.agent("Jill").transcript] == [
        "system",
        "user",
        "user",
        "assistant",
    ]


@pytest.mark.req("S4-13")
def test_the_answers_of_several_are_one_result_with_them_as_its_cause(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack", "Jill"]))
    said = [one.rows(content=text)[0]["message_id"] for text in ("Jack 1", "Jill 1")]
    result = one.result()
    assert result["content"] == "[Jack]: Jack 1\n\n[Jill]: Jill 1"
    assert result["cause"] == said
    assert "substance" not in result


@pytest.mark.req("S4-13")
def test_the_answer_of_one_alone_is_handed_through(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack"]))
    [said] = one.rows(content="Jack 1", role="assistant")
    result = one.result()
    assert (result["content"], result["substance"]) == ("Jack 1", said["message_id"])
    assert "cause" not in result


@pytest.mark.req("S4-13")
def test_one_speaker_with_a_listener_is_compiled(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack"], listeners=["Jill"]))
    result = one.result()
    assert result["content"] == "[Jack]: Jack 1"
    assert result["cause"] == [one.rows(content="Jack 1")[0]["message_id"]]


@pytest.mark.req("S4-14")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"speakers": ["Jack", "Joe"]}, "no subagent 'Joe'; there is: Jack, Jill"),
        ({"speakers": ["Jack"], "listeners": ["Joe"]}, "no subagent 'Joe'"),
        ({"speakers": []}, "nobody is there to speak"),
        ({"speakers": ["main"]}, "no subagent 'main'"),
        ({"speakers": ["agent_002"]}, "no subagent 'agent_002'"),
        ({"speakers": "Jack"}, "got `str`"),
        ({"listeners": ["Joe"]}, "no subagent 'Joe'"),
        ({"prompt": 5}, "got `int`"),
        ({"to": ["Jack"]}, "no argument 'to'"),
    ],
)
def test_bad_arguments_send_nothing_to_anyone(
    tmp_path: Path, arguments: dict[str, Any], says: str
) -> None:
    one = among(tmp_path, talk(**{"prompt": "Talk.", **arguments}))
    assert says in one.result()["content"]
    assert one.result()["is_error"] is True
    assert one.heard("Jack") == one.heard("Jill") == []
    assert one.rows(event_type="piece_of_text") == []
    assert len(one.rows(event_type="interlocutors_set")) == 2


@pytest.mark.req("S4-14")
def test_talking_with_nobody_there_is_an_error(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=[calls(talk(prompt="Hello?")), "Nobody."]))
    assert one.ask("Go.") == "Nobody."
    assert "create a subagent first" in one.result()["content"]


@pytest.mark.req("S4-16")
def test_the_newest_subagent_is_meant_by_default(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk."))
    assert one.heard("Jill") == ["Talk."]
    assert one.heard("Jack") == []


@pytest.mark.req("S4-16")
def test_the_last_speakers_and_listeners_are_meant_by_default(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack"], listeners=["Joe"]),
        talk("c2", prompt="Two."),
        names="Jack Jill Joe",
    )
    assert told_to(one, "Jack")[1] == ["One.", "Jack 1", "Two."]
    assert one.heard("Joe") == ["One.", "[Jack]: Jack 1", "Two.", "[Jack]: Jack 2"]
    assert one.heard("Jill") == []


@pytest.mark.req("S4-16")
def test_speakers_alone_clear_the_listeners(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack"], listeners=["Joe"]),
        talk("c2", prompt="Two.", speakers=["Jill"]),
        talk("c3", prompt="Three."),
        names="Jack Jill Joe",
    )
    assert one.heard("Joe") == ["One.", "[Jack]: Jack 1"]
    assert one.result("c3")["content"] == "Jill 2"


@pytest.mark.req("S4-16")
def test_listeners_alone_keep_the_speakers(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack"]),
        talk("c2", prompt="Two.", listeners=["Jill"]),
    )
    assert one.result("c2")["content"] == "[Jack]: Jack 2"
    assert one.heard("Jill") == ["Two.", "[Jack]: Jack 2"]


@pytest.mark.req("S4-12")
def test_somebody_named_as_a_listener_does_not_speak(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack", "Jill"]),
        talk("c2", prompt="Two.", listeners=["Jill"]),
    )
    assert one.result("c2")["content"] == "[Jack]: Jack 2"


@pytest.mark.req("S4-16", "S4-17")
def test_a_terminated_agent_drops_out_of_the_discussion(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="One.", speakers=["Jack", "Jill"]),
        call("terminate", "c2", name="Jack"),
        talk("c3", prompt="Two."),
    )
    assert one.result("c3")["content"] == "Jill 2"


@pytest.mark.req("S4-16")
def test_where_all_interlocutors_are_gone_the_newest_subagent_is_meant(tmp_path: Path) -> None:
    one = among(tmp_path, call("terminate", name="Jill"), talk("c2", prompt="You."))
    assert one.result("c2")["content"] == "Jack 1"


@pytest.mark.req("S4-16")
def test_a_subagent_made_by_code_is_the_newest_too(tmp_path: Path) -> None:
    one = stage(tmp_path, play(main=[calls(talk(prompt="Hi?")), "Done."], Ann=["Hi."]))
    SmartAgent(one.session, "You are Ann.", runtime=one.runtime).log_birth(
        one.root.state.birth, "Ann", "subagent"
    )
    assert one.ask("Go.") == "Done."
    assert one.result()["content"] == "Hi."


@pytest.mark.req("S4-11")
def test_without_a_prompt_the_talk_goes_on(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack", "Jill"]), talk("c2"))
    assert one.result("c2")["content"] == "[Jack]: Jack 2\n\n[Jill]: Jill 2"
    assert told_to(one, "Jack")[1] == ["Talk.", "Jack 1", "[Jill]: Jill 1"]
    assert len(one.rows(event_type="piece_of_text")) == 1


@pytest.mark.req("S4-11")
def test_a_name_given_twice_speaks_once(tmp_path: Path) -> None:
    one = among(tmp_path, talk(prompt="Talk.", speakers=["Jack", "Jack"], listeners=["Jack"]))
    assert one.result()["content"] == "Jack 1"


@pytest.mark.req("S4-11", "S4-03")
def test_what_goes_wrong_for_a_speaker_is_shared_as_text(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="Talk.", speakers=["Jack", "Jill"]),
        Jack=[calls(call("nope")), "I cannot."],
    )
    assert one.result()["content"] == "[Jack]: I cannot.\n\n[Jill]: Jill 1"
    assert one.heard("Jill") == ["Talk.", "[Jack]: I cannot."]


# terminate


@pytest.mark.req("S4-17")
def test_a_terminated_agent_takes_its_subtree_along(tmp_path: Path) -> None:
    model = play(
        main=[
            calls(call("task", name="Ann", prompt="Get help.")),
            calls(call("terminate", "c2", name="Ann")),
            calls(talk("c3", prompt="Hi?", speakers=["Ann"])),
            "Gone.",
        ],
        Ann=[calls(call("task", name="Bob", prompt="Help.")), "Bob helps."],
        Bob=["I help."],
    )
    one = stage(tmp_path, model)
    assert one.ask("Go.") == "Gone."
    assert one.result("c2")["content"] == "Terminated subagent: Ann"
    assert "no subagent 'Ann'; there is: none" in one.result("c3")["content"]
    [moved] = one.rows(event_type="agent_moved")
    assert moved["place"] == "gone"
    assert moved["cause"] == one.rows(role="assistant", agent_id="agent_001")[1]["message_id"]
    state = one.session.state
    for name in ("Ann", "Bob"):
        assert not state.is_live(state.agents[one.id_of(name)].id)  # type: ignore[index]
        assert one.id_of(name) not in one.session.live
    assert one.heard("Bob") == ["Help."]
    live = everything(one.session)
    assert everything(one.again().session) == live


@pytest.mark.req("S4-14", "S4-17")
def test_only_ones_own_subagents_can_be_terminated_or_talked_with(tmp_path: Path) -> None:
    model = play(
        main=[people("Ann", "Bob"), calls(talk(prompt="Go.", speakers=["Ann"])), "Done."],
        Ann=[calls(call("terminate", "x", name="Bob")), calls(talk("y", speakers=["main"])), "No."],
    )
    one = stage(tmp_path, model)
    one.ask("Go.")
    assert "no subagent 'Bob'" in one.result("x", "Ann")["content"]
    assert "no subagent 'main'" in one.result("y", "Ann")["content"]
    assert list(one.root.subagents) == ["Ann", "Bob"]


# The tree


@pytest.mark.req("S4-20", "S1-07")
def test_a_tree_may_be_as_deep_as_it_likes_and_logs_into_one_session(tmp_path: Path) -> None:
    depth = 400

    def deeper(request: Any) -> Any:
        level = 0 if request.agent == "main" else int(request.agent)
        if any(m.role == "tool" for m in request.messages):
            return f"{told(request)[-1]} {level}"
        if level == depth:
            return "bottom"
        return calls(call("task", name=str(level + 1), prompt="Deeper."))

    names = ["main", *map(str, range(1, depth + 1))]
    one = stage(tmp_path, Play({name: [deeper] * 2 for name in names}))
    answer = one.ask("Deeper.")
    assert answer == " ".join(["bottom", *map(str, range(depth - 1, -1, -1))])
    assert len(one.session.agents) == depth + 1
    above = one.session.agents
    assert all(above[a].parent == b for a, b in zip(list(above)[1:], list(above), strict=False))
    check_log(one.log)
    live = everything(one.session)
    assert everything(one.again().session) == live


@pytest.mark.req("S4-20")
def test_siblings_hear_each_other_only_in_a_discussion(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="Alone.", speakers=["Jack"]),
        talk("c2", prompt="Alone too.", speakers=["Jill"]),
    )
    assert one.heard("Jack") == ["Alone."]
    assert one.heard("Jill") == ["Alone too."]


@pytest.mark.req("S4-20")
def test_a_grandchilds_words_reach_nobody_but_its_parent(tmp_path: Path) -> None:
    one = among(
        tmp_path,
        talk(prompt="Talk.", speakers=["Jack", "Jill"]),
        Jack=[calls(call("task", name="Inner", prompt="What now?")), "Hello."],
        Inner=["Say hello, secretly."],
    )
    assert one.result("c1", "Jack")["content"] == "Say hello, secretly."
    assert [r["agent_id"] for r in one.rows() if "secretly" in str(r.get("content"))] == [
        one.id_of("Inner"),
        one.id_of("Jack"),
    ]


# Allowed tools


@tool
def read() -> str:
    """Read."""
    return "text"


@tool
def write() -> str:
    """Write."""
    raise AssertionError("it must not run")


def limited(folder: Path, *steps: ToolCall, tools: list[str] | None, **parts: Any) -> Stage:
    made = call("task", "c0", name="Ann", prompt="Go.", **({"tools": tools} if tools else {}))
    model = play(main=[calls(made), "Done."], Ann=[*(calls(s) for s in steps), "Tried."], **parts)
    one = stage(folder, model, tools=[read, write])
    assert one.ask("Go.") == "Done."
    return one


@pytest.mark.req("S4-05")
def test_a_subagent_may_be_given_some_tools_only(tmp_path: Path) -> None:
    one = limited(tmp_path, call("read"), call("write", "c2"), tools=["read"])
    assert one.result("c1", "Ann")["content"] == "text"
    refused = one.result("c2", "Ann")
    assert refused["content"] == "Error: Ann may not use a tool 'write'; it may use: read"
    assert [t["name"] for t in one.runtime.model.asked_of("Ann")[0].tools] == ["read"]  # type: ignore[union-attr]


@pytest.mark.req("S4-05")
def test_a_forbidden_action_is_not_run_either(tmp_path: Path) -> None:
    one = limited(tmp_path, call("task", name="Bob"), tools=["read"])
    assert "may not use a tool 'task'" in one.result("c1", "Ann")["content"]
    assert len(one.session.agents) == 2


@pytest.mark.req("S4-05")
def test_nobody_can_pass_on_a_tool_that_he_has_not(tmp_path: Path) -> None:
    wants = call("task", name="Bob", tools=["read", "write"])
    one = limited(tmp_path, wants, tools=["read", "task"])
    assert "you have no tool 'write' to pass on; yours: " in one.result("c1", "Ann")["content"]


@pytest.mark.req("S4-05")
def test_by_default_a_subagent_has_its_parents_tools(tmp_path: Path) -> None:
    one = limited(
        tmp_path,
        call("task", name="Bob", prompt="Write."),
        tools=["task"],
        Bob=[calls(call("write")), "I may not."],
    )
    assert "may not use a tool 'write'" in one.result("c1", "Bob")["content"]


@pytest.mark.req("S4-05", "S0-31")
def test_what_an_agent_may_use_survives_a_resume(tmp_path: Path) -> None:
    one = limited(tmp_path, tools=["read"])
    ann = one.again().agent("Ann")
    assert list(ann.tools) == ["read"]  # type: ignore[attr-defined]


@pytest.mark.req("S4-05")
def test_an_empty_list_of_tools_is_none_at_all(tmp_path: Path) -> None:
    one = stage(
        tmp_path,
        play(main=[calls(call("task", name="Ann", prompt="Go.", tools=[])), "Done."], Ann=["Hi."]),
        tools=[read],
    )
    one.ask("Go.")
    assert one.runtime.model.asked_of("Ann")[0].tools == []  # type: ignore[union-attr]


# Dumb agents


@register("test-echo")
class Echo(DumbAgent):
    """Says what it heard, and counts."""

    def begin(self) -> None:
        self.count = 0

    async def answer(self, heard: str) -> str:
        self.count += 1
        return f"{self.count}: {heard}"

    def saved_state(self) -> Any:
        return {"count": self.count}

    def take_back(self, saved: Any) -> None:
        self.count = saved["count"]


@pytest.mark.req("S4-01", "S0-31")
def test_a_dumb_agent_fits_where_a_smart_one_does(tmp_path: Path) -> None:
    steps = [
        calls(talk(prompt="One.", speakers=["Echo"])),
        calls(talk("c2", prompt="Two.")),
        "Done.",
        calls(talk("c3", prompt="Three.")),
        "Done.",
    ]
    one = stage(tmp_path, play(main=steps))
    echo = Echo(one.session, "Unused.", runtime=one.runtime)
    echo.log_birth(one.root.state.birth, "Echo", "subagent")
    assert one.ask("Go.") == "Done."
    assert one.result("c2")["content"] == "2: Two."
    live = everything(one.session)
    later = one.again()
    assert everything(later.session) == live
    assert later.session.agents[echo.agent_id].saved == {"count": 2}
    later.ask("Again.")
    assert later.result("c3")["content"] == "3: Three."
    check_log(later.log)


@pytest.mark.req("S4-03", "S4-01")
def test_a_dumb_agent_that_raises_is_a_failed_action(tmp_path: Path) -> None:
    class Broken(DumbAgent):
        kind = "broken"

        async def answer(self, heard: str) -> str:
            raise ValueError(heard)

    one = stage(tmp_path, play(main=[calls(talk(prompt="Hi?", speakers=["B"])), "Broken."]))
    Broken(one.session).log_birth(one.root.state.birth, "B", "subagent")
    assert one.ask("Go.") == "Broken."
    assert one.result()["content"] == "Error: discuss: ValueError: Hi?"


@pytest.mark.req("S4-01")
def test_a_dumb_agent_answers_alone_too(tmp_path: Path) -> None:
    one = stage(tmp_path, play())
    echo = Echo(one.session)
    echo.log_birth(one.root.state.birth, "Echo", "subagent")
    said = run(echo.response("hello"))
    assert said == "1: hello"
    [row] = one.rows(message_id=said.message_id)
    assert (row["role"], row["content"]) == ("assistant", "1: hello")
    [birth] = one.rows(event_type="agent_created", name="Echo")
    assert birth["spec"] == {"kind": "test-echo"}
    assert "language_model" not in birth
