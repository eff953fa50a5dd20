"""Key bindings. The operations are in `KeyActions`; editing is prompt_toolkit's."""

from __future__ import annotations

from functools import partial

from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from harken.chat.screen.key_actions import KeyActions


def bindings(hands: KeyActions) -> KeyBindings:
    """Return the key bindings of the chat."""
    keys = KeyBindings()
    _bind_input(keys, hands)
    _bind_everywhere(keys, hands)
    _bind_questions(keys, hands)
    return keys


def _bind_input(keys: KeyBindings, hands: KeyActions) -> None:
    buffer = hands.inputs.buffer
    in_input = has_focus(buffer)

    @keys.add("enter", filter=in_input)
    def _(event: KeyPressEvent) -> None:
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_state = None  # the completion is already in the input
        elif buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline()
        else:
            hands.submit()

    @keys.add("escape", "enter", filter=in_input)
    @keys.add("c-j", filter=in_input)
    def _(event: KeyPressEvent) -> None:
        buffer.newline(copy_margin=False)

    @keys.add(Keys.BracketedPaste, filter=in_input)
    def _(event: KeyPressEvent) -> None:
        hands.paste(event.data)

    @keys.add("up", filter=in_input & Condition(lambda: not buffer.text))
    def _(event: KeyPressEvent) -> None:
        if not hands.take_back():
            buffer.auto_up(count=event.arg)

    @keys.add("c-d", filter=in_input & Condition(lambda: not buffer.text))
    def _(event: KeyPressEvent) -> None:
        hands.leave()

    @keys.add("c-x", "c-e", filter=in_input)
    def _(event: KeyPressEvent) -> None:
        hands.edit()


def _bind_everywhere(keys: KeyBindings, hands: KeyActions) -> None:
    is_searching = Condition(lambda: hands.inputs.layout.is_searching)

    @keys.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        hands.interrupt()

    @keys.add("escape", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        hands.escape()

    is_tree_open = Condition(lambda: hands.tree_is_open)

    @keys.add("c-g", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        hands.table.toggle_tree()

    @keys.add("pageup", filter=is_tree_open)
    def _(event: KeyPressEvent) -> None:
        hands.table.scroll_tree(-1)

    @keys.add("pagedown", filter=is_tree_open)
    def _(event: KeyPressEvent) -> None:
        hands.table.scroll_tree(1)

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        hands.show_result()

    @keys.add("c-t")
    def _(event: KeyPressEvent) -> None:
        hands.show_thought()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        hands.suspend()

    @keys.add(Keys.Vt100MouseEvent)
    def _(event: KeyPressEvent) -> None:
        """Ignore mouse events: none was requested, so it was pasted, and may be no event."""


def _bind_questions(keys: KeyBindings, hands: KeyActions) -> None:
    inputs = hands.inputs
    choosing = Condition(lambda: inputs.layout.current_window is inputs.keys_window)

    @keys.add(Keys.Any, filter=choosing)
    def _(event: KeyPressEvent) -> None:
        waiting = event.app.key_processor.input_queue
        # The terminal may report the cursor position at any time.
        hands.press(event.data, is_alone=all(press.key is Keys.CPRResponse for press in waiting))

    for key in ("y", "n"):
        is_held = Condition(partial(hands.is_held_answer, key))

        @keys.add(key, filter=has_focus(inputs.buffer) & is_held)
        def _(event: KeyPressEvent) -> None:
            """Ignore the key that answered the question before and is still held down."""

    is_completing = Condition(lambda: inputs.buffer.complete_state is not None)

    @keys.add("s-tab", filter=choosing | (has_focus(inputs.buffer) & ~is_completing))
    def _(event: KeyPressEvent) -> None:
        hands.toggle_draft()

    @keys.add(Keys.BracketedPaste, filter=choosing)
    def _(event: KeyPressEvent) -> None:
        hands.draft(event.data)

    @keys.add("enter", filter=choosing)
    def _(event: KeyPressEvent) -> None:
        hands.confirm()

    @keys.add("c-d", filter=choosing)
    def _(event: KeyPressEvent) -> None:
        """Ignore the key: a question is answered only by its own keys."""

    @keys.add("enter", filter=has_focus(inputs.answer))
    def _(event: KeyPressEvent) -> None:
        hands.answer()
