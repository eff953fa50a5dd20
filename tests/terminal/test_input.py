"""The input: several lines, what waits, history, completion, and how a chat ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from harken.session.verify import verify
from tests.terminal.conftest import Chat
from tests.terminal.kit import ALT_ENTER, CTRL_C, CTRL_D, ENTER, ESCAPE, UP

PASTE = "\x1b[200~{}\x1b[201~"


def test_what_is_sent_while_a_turn_runs_waits_and_is_sent_then(chat: Chat) -> None:
    terminal = chat()
    terminal.type("briefly" + ENTER)
    terminal.wait("One")
    terminal.type("tea please" + ENTER)
    terminal.wait("then: tea please")
    shown = terminal.wait("I heard <tea please>.")
    assert shown.index("One two three four five.") < shown.index("› tea please")
    assert "then:" not in terminal.settle()


def test_what_waits_can_be_taken_back(chat: Chat, log: Callable[[], str]) -> None:
    terminal = chat()
    terminal.type("briefly" + ENTER)
    terminal.wait("One")
    terminal.type("tea please" + ENTER)
    terminal.wait("then: tea please")
    terminal.type(ESCAPE)
    terminal.wait("› tea please")
    assert "then:" not in terminal.visible
    terminal.type(ENTER)
    terminal.wait("then: tea please")
    terminal.type(UP)
    terminal.wait("› tea please", "One two three four five.")
    assert "tea please" not in log()


def test_a_turn_that_is_stopped_gives_back_what_waits(chat: Chat) -> None:
    terminal = chat()
    terminal.type("slow" + ENTER)
    terminal.wait("First")
    terminal.type("tea please" + ENTER)
    terminal.wait("then: tea please")
    terminal.type(CTRL_C)
    terminal.wait("stopped", "› tea please")


def test_what_looks_like_a_mouse_is_nothing(chat: Chat) -> None:
    terminal = chat()
    terminal.type("tea \x1b[<0;9Mplease" + ENTER)
    assert "Error" not in terminal.wait("I heard <tea please>.")


def test_a_prompt_may_have_several_lines(chat: Chat, log: Callable[[], str]) -> None:
    terminal = chat()
    terminal.type("one" + ALT_ENTER + "two\nthree\\" + ENTER + PASTE.format("four\rfive"))
    terminal.wait("› one\n  two\n  three\n  four\n  five\n")
    terminal.type(ENTER)
    terminal.wait("I heard <one")
    assert '"content":"one\\ntwo\\nthree\\nfour\\nfive"' in log()


def test_a_large_paste_is_a_mark_in_the_input_and_is_sent_whole(
    chat: Chat, log: Callable[[], str]
) -> None:
    terminal = chat()
    text = "".join(f"line {number}\n" for number in range(3000))
    terminal.type("sum up: ")
    for at in range(0, len(text), 1000):  # a terminal takes what is read
        begin, end = "\x1b[200~" * (at == 0), "\x1b[201~" * (at + 1000 >= len(text))
        terminal.type(f"{begin}{text[at : at + 1000]}{end}")
        terminal.read(0)
    terminal.wait("› sum up: [paste 1: 3000 lines]")
    terminal.type(ENTER)
    terminal.wait(lambda: "line 2998\\nline 2999" in log())


def test_history_is_kept_for_the_next_chat_and_for_its_owner_only(
    chat: Chat, tmp_path: Path
) -> None:
    first = chat()
    first.say("hello again")
    first.wait("12 out")
    first.type(CTRL_D)
    assert first.end() == 0
    assert (tmp_path / "home" / "history").stat().st_mode & 0o777 == 0o600
    second = chat()
    second.type(UP)
    second.wait("› hello again")
    second.type(CTRL_C)
    second.wait("› type a message")
    second.type("\x12lo ag")  # Ctrl-R
    second.wait("› hello again", "I-search")


def test_commands_and_files_are_completed(chat: Chat) -> None:
    terminal = chat()
    terminal.type("/con")
    terminal.wait("/context", "show the context of the model")
    terminal.type("\t")
    terminal.wait("› /context")
    terminal.type(ENTER + ENTER)
    terminal.wait("1 message in the context")
    terminal.type("read @rec")
    terminal.wait("recipe.txt")
    terminal.type("\t")
    terminal.wait("› read @recipe.txt")


def test_an_unknown_command_stays_in_the_input_and_near_names_are_said(chat: Chat) -> None:
    terminal = chat()
    terminal.type("/contxt" + ENTER)
    terminal.wait("command /contxt not found; did you mean '/context'", "› /contxt")
    terminal.type(CTRL_C + "/etc/hosts is odd" + ENTER)
    terminal.wait("I heard </etc/hosts is odd>.")


def test_ctrl_c_clears_the_line_and_twice_on_an_empty_one_ends(chat: Chat) -> None:
    terminal = chat()
    terminal.type("never mind")
    terminal.wait("› never mind")
    terminal.type(CTRL_C)
    terminal.wait("› type a message")
    terminal.type(CTRL_C)
    terminal.wait("Ctrl-C again ends the chat")
    terminal.type(CTRL_C)
    assert terminal.end() == 0


def test_ctrl_d_ends_also_while_a_turn_runs(chat: Chat, log: Callable[[], str]) -> None:
    terminal = chat()
    terminal.type("slow" + ENTER)
    terminal.wait("First")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    last, committed, ended = log().splitlines()[-3:]
    assert '"content":"[interrupted]' in last
    assert "context_committed" in committed
    assert "session_ended" in ended


def test_a_terminal_that_goes_away_ends_the_chat_and_the_log_is_whole(
    chat: Chat, tmp_path: Path
) -> None:
    terminal = chat()
    terminal.type("slow" + ENTER)
    terminal.wait("First")
    terminal.process.ptyproc.fileobj.close()
    deadline = time.monotonic() + 10
    while terminal.process.isalive():
        assert time.monotonic() < deadline, "it goes on without its terminal"
        time.sleep(0.01)
    [log] = (tmp_path / "home" / "sessions").glob("*.jsonl")
    assert verify(log) == []
    assert "[interrupted]" in log.read_text()


def test_who_ends_the_program_from_outside_gets_a_clean_terminal(
    chat: Chat, log: Callable[[], str]
) -> None:
    terminal = chat()
    terminal.type("slow" + ENTER)
    terminal.wait("First")
    terminal.process.kill(signal.SIGTERM)
    assert terminal.end() == 143
    assert "session_ended" in log()
    assert "type ahead" not in terminal.text
    assert terminal.written.rindex("\x1b[?2004l") > terminal.written.rindex("\x1b[?2004h")


def test_a_text_can_be_written_in_an_editor(
    chat: Chat, tmp_path: Path, log: Callable[[], str]
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "in the editor"\necho "tea, and more" >>"$1"\n')
    editor.chmod(0o755)
    terminal = chat(EDITOR=str(editor), VISUAL="")
    terminal.type("black ")
    terminal.wait("› black")
    terminal.type("\x18\x05")  # Ctrl-X Ctrl-E
    terminal.wait("in the editor", "› black tea, and more")
    terminal.type(ENTER)
    terminal.wait("I heard <black tea, and more>.")


def test_thoughts_and_views_are_a_key_and_a_command_away(chat: Chat) -> None:
    terminal = chat()
    terminal.say("markdown")
    terminal.wait("thought briefly, 7 words (Ctrl-T shows it)", "3 dl")
    terminal.type("\x14")  # Ctrl-T
    terminal.wait("I shall show what Markdown there is.")
    terminal.say("/view tree")
    terminal.wait("main  (agent_001,")
    terminal.say("/agents")
    terminal.wait("cost unknown · 1 model call")
