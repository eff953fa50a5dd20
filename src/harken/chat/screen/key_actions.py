"""The operations of the user's keys, and a guard against accidental answers.

A question may appear while the user types, and the next letter must not be taken for a yes. Keys
answer only if the input is empty, and nothing was typed for `QUIET_S` since the question was drawn.
`KeyGuard` measures the time; the input knows whether it is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from harken.agents.open_calls import has_open_calls
from harken.chat.commands.base import is_command, run_command
from harken.chat.running.turns import Turns
from harken.chat.screen.command_host import CommandHost
from harken.chat.screen.input_history import Pastes
from harken.chat.screen.layout import Inputs
from harken.chat.screen.prompts import ScreenPrompt, heading

DEBOUNCE_S = 1.0


class KeyGuard:
    """A timer that restarts with every key until the user has paused.

    The timer starts when the question is drawn: the user cannot answer a question that the terminal
    does not show, for instance while an editor has it.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        is_input_busy: Callable[[], bool] = lambda: False,
        quiet_s: float = DEBOUNCE_S,
    ) -> None:
        """Call `changed` when the pause is over. `is_input_busy`: whether the input holds text."""
        self._changed = changed
        self._is_input_busy = is_input_busy
        self._quiet_s = quiet_s
        self._is_waiting_for_drawing = False
        self._is_quiet = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def armed(self) -> bool:
        """Whether keys answer the visible question."""
        return self._is_quiet and not self._is_input_busy()

    def begin(self) -> None:
        """Wait for a question to be drawn, or drawn again."""
        self.end()
        self._is_waiting_for_drawing = True

    def drawn(self) -> None:
        """Start the timer if a question was waiting to be drawn."""
        if self._is_waiting_for_drawing:
            self._is_waiting_for_drawing = False
            self._start()

    def touch(self) -> None:
        """Restart the timer after a key, unless keys answer already."""
        if (self._timer is not None or self._is_quiet) and not self.armed:
            self._start()

    def end(self) -> None:
        """Stop the timer: no question is shown."""
        self._cancel()
        self._is_waiting_for_drawing = self._is_quiet = False

    def _start(self) -> None:
        self._cancel()
        self._is_quiet = False
        self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self._expire)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer, self._is_quiet = None, True
        self._changed()


REPEAT_WINDOW_S = 2.0
HELD_S = 0.8
"""Longer than the delay before a held key repeats."""
TOGETHER_S = 0.03
"""Shorter than the time between two keys that a person types."""


class KeyActions(msgspec.Struct):
    """Runs the operations of keys."""

    table: CommandHost
    inputs: Inputs
    turns: Turns
    arming: KeyGuard
    pastes: Pastes = msgspec.field(default_factory=Pastes)
    now: Callable[[], float] = lambda: asyncio.get_running_loop().time()
    ends_until: float = -1.0
    """The time until which another Ctrl-C ends the chat."""
    answer_key: str = ""
    """The key that answered the last question: held down, it repeats."""
    repeats_until: float = -1.0
    """The time until which the same key counts as held down."""
    last_key_s: float = -1.0
    gap_s: float = TOGETHER_S
    """The time between the last two keys, in seconds."""

    def note_key(self) -> None:
        """Measure the time between keys. Called before each key."""
        now = self.now()
        self.last_key_s, self.gap_s = now, now - self.last_key_s

    def submit(self) -> None:
        """Send the typed text. While a turn runs, queue it."""
        buffer = self.inputs.buffer
        text = self.pastes.unfold(buffer.text).strip()
        if not text:
            if not self.turns.running and has_open_calls(self.turns.chat.primary):
                self.turns.start(None)
            buffer.reset()
            return
        if not is_command(text, self.table.user_commands):
            self.inputs.remember(text)
            self.table.send(text)
        elif self.table.run(text):
            self.inputs.remember(text)  # an invalid command stays in the input for correction

    def answer(self) -> None:
        """Answer the question with the typed text."""
        question = self.table.questions.current
        if question is not None and question.enter(self.inputs.answer.text):
            self.inputs.answer.reset(append_to_history=False)

    def press(self, key: str, *, is_alone: bool = True) -> None:
        """Answer the question with a key; a letter that is no choice belongs to the draft.

        `is_alone`: whether no other key waits behind it. Several keys at once are pasted text, or
        typing that waited in the terminal, and never an answer.
        """
        question = self.table.questions.current
        if question is None or not key or not key.isprintable():
            return
        if question.step == "choose" and not (is_alone and self.gap_s >= TOGETHER_S):
            self.draft(key)
        elif key == "v":
            self.table.show_preview()
        elif key == "y" and self._print_hidden_preview(question):
            return
        elif question.press(key):
            if question.answer.done():
                self._note_answer_key(key)
        else:
            self.draft(key)
        self.inputs.refocus()
        self.table.stage.refresh()

    def is_held_answer(self, key: str) -> bool:
        """Whether this is the key of the last answer, held down or pressed twice.

        Such a key is ignored: it neither answers nor is text, which would block the next answer.
        """
        is_held = (
            key == self.answer_key
            and self.turns.running
            and not self.inputs.is_busy
            and self.now() < self.repeats_until
        )
        if is_held:
            self._note_answer_key(key)
        return is_held

    def _note_answer_key(self, key: str) -> None:
        self.answer_key, self.repeats_until = key, self.now() + HELD_S

    def confirm(self) -> None:
        """Allow the chosen rule from now on."""
        question = self.table.questions.current
        if (
            question is not None
            and question.chosen_rule
            and not self._print_hidden_preview(question)
        ):
            question.confirm()

    def draft(self, text: str) -> None:
        """Put text that was typed or pasted while a question is shown into the input.

        Text is no answer: the question returns to its first step, and its keys answer when the
        input is empty again and the user has paused.
        """
        question = self.table.questions.current
        if question is not None:
            question.back()
        self.arming.begin()
        self.inputs.bring_back()
        self.paste(text)
        self.inputs.refocus()
        self.table.stage.refresh()

    def toggle_draft(self) -> None:
        """Set the draft aside to answer a question, or restore it."""
        if self.table.questions.current is None:
            return
        if self.inputs.aside is not None:
            self.draft("")
        elif self.inputs.buffer.text:
            self.inputs.set_aside()
            self.arming.begin()
            self.table.stage.refresh()

    def _print_hidden_preview(self, question: ScreenPrompt) -> bool:
        """Print the preview if none of it is visible; return whether it was printed.

        In a window of few rows a question has room for its keys alone.
        """
        others = len(self.table.questions.waiting) - 1
        above = len(heading(question, self.table.stage.width, others=others))
        if question.was_printed or self.inputs.question_rows > above:
            return False
        self.table.show_preview()
        return True

    def interrupt(self) -> None:
        """Cancel the turn, else clear the text, else, the second time, end the chat."""
        buffer = self.inputs.buffer
        if self.turns.running:
            self.turns.stop()
        elif buffer.text:
            buffer.reset()
        elif self.now() < self.ends_until:
            self.table.quit()
        else:
            self.ends_until = self.now() + REPEAT_WINDOW_S
            self.table.hint("Ctrl-C again ends the chat")

    def escape(self) -> None:
        """Go one step back: from a choice, a question, the queued messages, or the turn."""
        buffer = self.inputs.buffer
        question = self.table.questions.current
        if buffer.complete_state is not None:
            buffer.cancel_completion()
        elif question is None and self.tree_is_open:
            self.table.toggle_tree()
        elif question is not None and self.arming.armed and question.back():
            self.inputs.answer.reset()
            self.inputs.refocus()
            self.table.stage.refresh()
        elif question is not None or not self.take_back():
            self.turns.stop()

    def take_back(self) -> bool:
        """Put the queued messages back into the input; return whether there were any."""
        if not self.turns.queued:
            return False
        self.inputs.insert(self.turns.queued.take_back())
        self.table.stage.refresh()
        return True

    def paste(self, text: str) -> None:
        """Insert a pasted text into the input, a long one as a marker."""
        self.inputs.buffer.insert_text(self.pastes.fold(text))

    def leave(self) -> None:
        """End the chat."""
        self.table.quit()

    @property
    def tree_is_open(self) -> bool:
        """Whether the tree of agents is shown."""
        return self.table.tree is not None and self.table.tree.is_open

    def show_result(self) -> None:
        """Print the last result that was folded."""
        self.table.show_result()

    def show_thought(self) -> None:
        """Print the last thought."""
        run_command(self.table, "/thinking")

    def edit(self) -> None:
        """Open the input in an editor."""
        self.table.stage.edit(self.inputs.buffer)

    def suspend(self) -> None:
        """Give the terminal back to the shell for a time."""
        self.table.stage.suspend()
