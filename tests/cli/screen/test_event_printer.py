"""Telling: what is printed of each event, live and when a session is shown again."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import AgentRuntime, Comment, Deny, LocalWorld, Rewrite, SmartAgent, tool
from harken.agents.built_in.planning_mode import start_planning
from harken.agents.tree.hook_action import new_hook
from harken.chat.render.answer_stream import AnswerStream
from harken.chat.render.event_printer import (
    PROMPT_LINES,
    format_thought,
    iter_prose,
)
from harken.core.messages import Message, TextPart, ThinkingPart
from harken.core.stream import Chunk, Finish, TextDelta, ThinkingDelta
from harken.errors import ModelError
from harken.terminal.ansi import AnsiStyler
from harken.terminal.pieces import Printer, Prose, TextRows, note
from tests.agent_kit import call, call_message, open_stage, run, script_model
from tests.cli.chat_kit import Talking
from tests.cli.screen.printer_kit import CODES, Heard, drawn
from tests.unit.agents.compaction_kit import talk
from tests.unit.agents.hook_kit import sending, watch


def test_a_prompt_and_its_answer_are_told(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["It is **hot**."]))
    heard = Heard(one)
    one.ask("Is the tea\nhot?")
    assert heard.lines == ["› Is the tea", "  hot?"]  # the answer streams, or is told at the end
    assert heard.again() == ["› Is the tea", "  hot?", "It is hot."]


def test_a_call_is_told_with_its_result(tmp_path: Path) -> None:
    @tool
    def pour(cups: int) -> str:
        """Pour."""
        return "\n".join(f"cup {number}" for number in range(cups))

    one = open_stage(
        tmp_path,
        script_model(main=[call_message(call("pour", cups=9), text="At once."), "Done."]),
        tools=[pour],
    )
    heard = Heard(one)
    one.ask("pour")
    assert heard.lines == [
        "› pour",
        "At once.",
        "● pour(9)",
        "  cup 0",
        "  cup 1",
        "  cup 2",
        "  cup 3",
        "  … 5 more lines (/show 9)",
    ]
    assert heard.again() == [*heard.lines, "Done."]


def test_a_compaction_is_one_line_and_who_sums_up_is_not_seen(tmp_path: Path) -> None:
    one = open_stage(tmp_path, talk(main=["Hot."], compaction="## Goals\nTea."))
    heard = Heard(one)
    one.ask("tea?")
    assert isinstance(one.root, SmartAgent)
    run(one.root.compact())
    [edited] = one.select_lines(event_type="transcript_edited", reason="compaction")
    number = int(edited["summary"].removeprefix("msg_"))
    assert heard.lines == [
        "› tea?",
        f"the context of main was compacted (/show {number} is the summary)",
    ]
    assert heard.again() == [heard.lines[0], "Hot.", heard.lines[1]]


def test_of_a_long_prompt_the_beginning_is_told(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Thanks."]))
    heard = Heard(one)
    one.ask("read this\n" + "line\n" * 1000)
    assert len(heard.lines) == PROMPT_LINES + 1
    assert heard.lines[-1] == "  … 972 more lines (/show 3)"


def test_of_a_long_line_that_a_subagent_says_the_beginning_is_told(tmp_path: Path) -> None:
    made = call("task", name="Ann", instructions="You are Ann.", user_prompt="talk")
    one = open_stage(
        tmp_path, script_model(main=[call_message(made), "Done."], Ann=["word " * 1000])
    )
    heard = Heard(one)
    one.ask("go")
    assert max(map(len, heard.lines)) < 500
    assert any("… 1 more line (/show" in line for line in heard.lines)


def test_what_failed_is_told(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[call_message(call("brew", what="x")), "Oh."]))
    heard = Heard(one)
    one.ask("brew")
    assert heard.lines[1] == "● brew(x)"
    assert heard.lines[2].startswith("  Error: main may not use a tool 'brew'")


def test_a_subagent_is_born_speaks_acts_and_ends_below_the_call_that_made_it(
    tmp_path: Path,
) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "tea"

    model = script_model(
        main=[
            call_message(call("task", name="Ann", prompt="Tea?")),
            call_message(call("terminate", name="Ann")),
            "Done.",
        ],
        Ann=[call_message(call("look"), text="Let me see."), "\n".join("abcdefgh")],
    )
    one = open_stage(tmp_path, model, tools=[look])
    heard = Heard(one)
    one.ask("go")
    assert heard.lines == [
        "› go",
        "● task(Ann: Tea?)",
        "  Ann: Let me see.",
        "  ● Ann look()",
        "    tea",
        "  Ann: a",
        "    b",
        "    c",
        "    d",
        "    … 4 more lines (/show 19)",
        "  - Ann ended",
        "● terminate(Ann)",
        "  Terminated subagent: Ann",
    ]
    assert heard.again() == [*heard.lines, "Done."]


def test_a_birth_is_told_where_the_line_above_does_not_say_it(tmp_path: Path) -> None:
    both = call_message(
        call("task", name="Ann", prompt="Tea?"), call("task", name="Bob", prompt="Milk?")
    )
    one = open_stage(tmp_path, script_model(main=[both, "Done."], Ann=["Tea."], Bob=["Milk."]))
    heard = Heard(one)
    one.ask("go")
    assert heard.lines[1:4] == ["● task(Ann: Tea?)", "● task(Bob: Milk?)", "  + Ann"]
    assert "  + Bob" in heard.lines
    assert heard.again() == [*heard.lines, "Done."]


def test_what_hooks_do_is_told(tmp_path: Path) -> None:
    one = sending(tmp_path)
    heard = Heard(one)
    watch(
        one,
        input=lambda _: Comment("mind the step"),
        action=lambda _: Rewrite('{"text": "bye"}'),
        response=lambda question: (
            Deny("too short") if question.text == "Done." else Rewrite("**Well** done.")
        ),
    )
    answer = one.ask("go")
    assert answer == "**Well** done."
    assert heard.lines == [
        "+ hook guard watches main",
        "› go",
        "hook guard comments: mind the step",
        'hook guard rewrites: {"text": "bye"}',
        "a hook rewrote the call to send(bye)",
        "● send(hello)",
        "  sent bye",
        "hook guard denies: too short",
        "hook guard rewrites: **Well** done.",
    ]


def test_the_last_word_of_a_hook_that_leaves_is_told_as_a_hooks(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["PLAN: pour.", "Poured."]), tools=[])
    start_planning(one.root)
    heard = Heard(one)
    one.ask("plan")
    one.ask("yes")
    [word] = [line for line in heard.lines if "Planning mode is over" in line]
    assert word.startswith("hook planning-mode comments: Planning mode is over")
    assert "- hook planning-mode ended" in [line.strip() for line in heard.lines]


def test_notes_that_a_hook_drops_are_not_worth_a_line(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["Tea.", "More tea."], guard=["OK"] * 9))
    assert isinstance(one.root, SmartAgent)
    new_hook(one.root, "Watch.").install(one.root, "guard")
    heard = Heard(one)
    one.ask("tea?")
    assert one.select_lines(event_type="transcript_edited", reason="notes dropped")
    assert heard.lines == ["› tea?"]


def test_what_a_restored_agent_remembers_is_not_told_as_if_it_happened_now(tmp_path: Path) -> None:
    model = script_model(main=["Hello."], Ann=["Tea.", "Tea again."])
    one = open_stage(
        tmp_path, model, runtime=AgentRuntime(model=model, world=LocalWorld(folder=tmp_path))
    )
    chat = Talking(one)
    chat("/task Ann You are Ann. prompt=Tea?")
    chat("/dump ann.dump Ann")
    heard = Heard(one)
    chat("/restore ann.dump Zoe")
    assert [line.strip() for line in heard.lines][1:2] == ["+ Zoe"]
    assert not [line for line in heard.lines if "Tea." in line]


def test_an_answer_that_a_hook_rewrote_is_shown_again_as_the_user_got_it(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=["No."]))
    heard = Heard(one)
    watch(one, response=lambda _: Rewrite("Yes."))
    one.ask("go")
    teller = heard.teller(live=False)
    teller.answers.add(heard.events)
    told = drawn(piece for event in heard.events for piece in teller.render(event))
    assert "Yes." in told
    assert "No." not in told


def test_a_failing_hook_is_told(tmp_path: Path) -> None:
    one = sending(tmp_path)
    heard = Heard(one)
    watch(one, action=lambda _: 1 / 0)
    one.ask("go")
    assert "hook guard failed: ZeroDivisionError: division by zero" in heard.lines


def test_a_failed_model_call_is_told_when_it_is_shown_again(tmp_path: Path) -> None:
    one = open_stage(tmp_path, script_model(main=[ModelError("the line is dead")]))
    heard = Heard(one)
    with pytest.raises(ModelError):
        one.ask("go")
    assert heard.lines == ["› go"]  # live, the end of the turn says it
    assert heard.again() == ["› go", "the line is dead"]


def test_an_answer_that_did_not_end_as_usual_says_so(tmp_path: Path) -> None:
    chunks: list[Chunk] = [TextDelta("and on"), Finish(stop_reason="max_tokens")]
    one = open_stage(tmp_path, script_model(main=[chunks]))
    heard = Heard(one)
    one.ask("go")
    assert heard.lines[1:] == ["the answer reached the maximum length"]


def test_nothing_that_is_told_acts_on_the_terminal(tmp_path: Path) -> None:
    bad = "\x1b[2J\x9b\r\x07\u202e"

    @tool(name="odd")
    def odd(what: str) -> str:
        """Odd."""
        return f"{bad}\n{bad}"

    model = script_model(
        main=[
            call_message(call("task", name="Ann", prompt=bad)),
            call_message(call("odd", "c2", what=bad)),
            bad,
        ],
        Ann=[bad],
    )
    one = open_stage(tmp_path, model, tools=[odd])
    heard = Heard(one)
    watch(one, result=lambda _: Comment(bad))
    one.ask(bad)
    for line in [*heard.lines, *heard.again()]:
        assert line.isprintable(), line


def test_thoughts_are_folded_to_a_line(tmp_path: Path) -> None:
    said = Message("assistant", [ThinkingPart("one two three"), TextPart("Four.")])
    one = open_stage(tmp_path, script_model(main=[said]))
    heard = Heard(one)
    one.ask("go")
    assert heard.again()[1:] == ["thought, 3 words (Ctrl-T shows it)", "Four."]
    assert drawn([format_thought("one", 4.2)]) == ["thought for 4 s, 1 word (Ctrl-T shows it)"]


def test_a_stream_gives_what_is_finished_and_the_rest_is_its_tail() -> None:
    stream = AnswerStream()
    chunks: list[Chunk] = [ThinkingDelta("hm "), ThinkingDelta("hm"), TextDelta("One.\n\nTw")]
    first = [piece for at, chunk in enumerate(chunks) for piece in stream.feed(chunk, float(at))]
    assert drawn(first) == ["thought for 2 s, 2 words (Ctrl-T shows it)", "One."]
    has_shown = [stream.has_shown]
    assert [text for line in stream.tail(20, 5) for _, text in line] == ["Tw"]
    assert drawn([*stream.feed(TextDelta("o."), 3.0), *stream.end(3.0)]) == ["Two."]
    assert [*has_shown, stream.has_shown] == [True, False]
    assert stream.tail(20, 5) == []
    assert list(stream.end(4.0)) == []


def text_of(*pieces: Prose | TextRows) -> str:
    printer = Printer(AnsiStyler(color=False))
    return CODES.sub("", "".join(printer.text(piece, 60) for piece in pieces))


def test_empty_lines_stand_between_what_does_not_belong_together() -> None:
    said = [*iter_prose("a\n\n- b\n- c")]
    action = TextRows("action", [[("", "did")]])
    assert text_of(*said, action, note("noted"), action, *said) == (
        "a\n\n • b\n • c\n\ndid\nnoted\ndid\n\na\n\n • b\n • c\n"
    )


def test_what_is_deep_is_indented_as_far_as_there_is_room() -> None:
    assert text_of(note("deep", depth=3)) == "      deep\n"
    printer = Printer(AnsiStyler())
    assert printer.text(note("deep", "", depth=30), 20) == "deep\n"
