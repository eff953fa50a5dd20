"""The screen: a chat in a terminal that shows the events of its session.

Its only state that is not in the log is the text being typed and the queued messages.

Frequent changes are drawn at once, and then at a limited rate (`FrameLimiter`).

Objects that are created while the chat begins, and exist until it ends, are excluded from garbage
collection (`lasting`). With the SDK of a model these are more than a hundred thousand objects. A
full collection visits them all, and nothing is drawn meanwhile: for a tenth of a second, in the
middle of a word or an answer.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread

import msgspec

from harken.agents.open_calls import has_open_calls
from harken.agents.smart_agent import SmartAgent
from harken.agents.turn.compaction import tokens_used
from harken.chat.open_chat import OpenChat
from harken.chat.render.activity import AgentActivity
from harken.chat.render.agent_tree import LiveTree
from harken.chat.render.answer_stream import AnswerStream
from harken.chat.render.event_printer import EventPrinter, iter_prose
from harken.chat.render.greeting import iter_greeting, iter_last_exchanges, past_events
from harken.chat.render.model_failure import format_failure
from harken.chat.render.status_line import Status, context_tokens, folder_text, summary
from harken.chat.running.turns import TurnResult, Turns
from harken.chat.screen.command_host import CommandHost
from harken.chat.screen.completion import InputCompleter
from harken.chat.screen.early_keys import keep_early_keys
from harken.chat.screen.event_queue import QueuedItem, ScreenHandle
from harken.chat.screen.input_history import PrivateHistory
from harken.chat.screen.key_actions import KeyActions, KeyGuard
from harken.chat.screen.key_bindings import bindings
from harken.chat.screen.layout import Inputs, LayoutState
from harken.chat.screen.prompts import ScreenPrompt, ask_lines
from harken.chat.screen.terminal import ScreenTerminal
from harken.chat.usage import UsageTotal, format_cost
from harken.core.events import (
    AgentMoved,
    Event,
    LlmResponse,
    TranscriptEdited,
    TranscriptEntry,
)
from harken.core.ids import AgentId, MessageId
from harken.llm.base import Model
from harken.terminal.environment import TerminalEnvironment
from harken.terminal.event_lines import format_model_name
from harken.terminal.pieces import Piece, note
from harken.terminal.styled_text import Line, clean_text


@contextmanager
def exclude_from_gc() -> Iterator[None]:
    """Disable garbage collection in the block, and exclude all objects that exist at its end.

    Unreferenced objects are still freed, except cycles that exist at the end.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


FRAME_S = 0.05


class FrameLimiter(msgspec.Struct):
    """Calls `draw` on request, at most every `frame_s` seconds. The last request is never lost."""

    draw: Callable[[], None]
    frame_s: float = FRAME_S
    _drawn_at: float = float("-inf")
    _later: asyncio.Handle | None = None

    def request_draw(self) -> None:
        """Draw as soon as the rate limit allows, from the running event loop."""
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._drawn_at + self.frame_s - loop.time()
        if wait > 0:
            self._later = loop.call_later(wait, self._draw, loop)
        else:
            self._later = loop.call_soon(self._draw, loop)

    def draw_if_due(self) -> None:
        """Draw unless that was done lately, from the running event loop.

        The next request does not wait for it: streamed text is not delayed by a timer.
        """
        loop = asyncio.get_running_loop()
        if self._later is None and loop.time() - self._drawn_at >= self.frame_s:
            loop.call_soon(self.draw)

    def _draw(self, loop: asyncio.AbstractEventLoop) -> None:
        self._later, self._drawn_at = None, loop.time()
        self.draw()


TICK_S = 0.1
MIN_ROOMY_ROWS = 8
"""The minimum number of rows for empty lines between live parts."""
MIN_TREE_ROWS = 6
"""The minimum rows of the tree of agents; on a high terminal it gets two thirds."""
BRING_BACK_S = 0.3
"""Questions of several agents may follow within this time: the draft stays aside for all."""
LONG_TURN_S = 30.0
"""A longer turn rings the bell when it ends or asks: the user may have looked away."""


class Screen:
    """The screen of a chat."""

    def __init__(
        self, face: ScreenHandle, chat: OpenChat, where: TerminalEnvironment, *, draft: str = ""
    ) -> None:
        """Prepare everything. Nothing is drawn before `run`. `draft` is the initial input."""
        self.opened, self.where = chat, where
        self.ears, self.questions = face.event_queue, face.questions
        self.pace = FrameLimiter(self._frame)
        self.ears.on_items, self.ears.streaming = self._print_items, self.pace.request_draw
        self.questions.changed = self._question_changed
        self.activity, self.stream = AgentActivity(tools=chat.runtime.world.tools), AnswerStream()
        self.teller = EventPrinter(chat.session.state, chat.runtime.world.tools)
        self.arming = KeyGuard(self._refocus, lambda: self.inputs.is_busy)
        self.turns = Turns(chat, self._turn_ended, self._fail)
        layout_state = LayoutState(
            question=lambda: self.questions.current,
            question_lines=self._question_lines,
            is_armed=lambda: self.arming.armed,
            is_running=lambda: self.turns.running,
            status=self._status,
            columns=lambda: self.stage.columns,
            rows=lambda: self.stage.rows,
            talks_with=self._talks_with,
        )
        completer = InputCompleter(where.folder, lambda: self.table)
        redact = chat.session.options.redact
        past = None if where.history is None else PrivateHistory(where.history, redact)
        self.inputs = Inputs(layout_state, completer, past)
        self.inputs.insert(draft)
        self.inputs.buffer.on_text_changed += lambda _: self.arming.touch()
        self.stage = ScreenTerminal(where, self.inputs.layout, self._live_lines)
        self.tree = LiveTree(chat.session.state, self.activity)
        self.table = CommandHost(
            chat, self.stage, self.teller, self.activity, self.questions, self.turns, self._leave
        )
        self.table.tree = self.tree
        self.stage.on_return = self._question_shown_again
        self.stage.app.after_render += lambda _: self.arming.drawn()
        self.stage.app.key_processor.before_key_press += lambda _: self.arming.touch()
        hands = KeyActions(self.table, self.inputs, self.turns, self.arming)
        self.stage.app.key_processor.before_key_press += lambda _: hands.note_key()
        self.stage.app.key_bindings = bindings(hands)
        self._usage = UsageTotal()
        self._context_tokens: int | None = None
        self._ticking = False
        self._error: BaseException | None = None
        self._question: ScreenPrompt | None = None
        """The visible question."""
        self._streamed: MessageId | None = None
        """The last answer that was streamed."""

    async def run(self) -> int:
        """Run the chat until the user ends it; return the exit code.

        Raises errors that no turn raises.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, self._leave, 128 + number)
        self._begin()
        agent = self.opened.primary
        model = agent.model if isinstance(agent, SmartAgent) else None
        Thread(target=warm_up, args=(model,), name="harken warm-up", daemon=True).start()
        self.ears.open()
        async with self.opened.conversation.listen():
            following = asyncio.create_task(self.turns.follow(), name="events")
            waking = asyncio.create_task(self.table.wake(), name="wake")
            try:
                with keep_early_keys(self.stage.app.input):
                    code: int = await self.stage.app.run_async(
                        handle_sigint=False, set_exception_handler=False
                    )
            except EOFError:
                code = 0  # the terminal is closed
            finally:
                waking.cancel()
                following.cancel()
                await self.turns.close()
                await self.opened.runtime.world.close()
                self.ears.close()
        if self._error is not None:
            raise self._error
        return code

    def _begin(self) -> None:
        """Print the greeting, or the end of a resumed session."""
        pieces: list[Piece] = [*iter_greeting(self.opened, self.where)]
        past = past_events(self.opened)
        for event in past:
            self._count(event)
        pieces += iter_last_exchanges(self.opened, past)
        self.opened.session.add_listener(self.ears.on_event)
        self.stage.print(pieces)

    def _print_items(self, batch: Sequence[QueuedItem]) -> None:
        """Print the queued items."""
        try:
            pieces = [piece for item in batch for piece in self._pieces(item)]
        except Exception as error:  # noqa: BLE001 - raised by `run`, not inside an agent's turn
            self._fail(error)
            return
        if pieces:
            self.stage.print(pieces)
        if any(not isinstance(item, tuple) for item in batch):
            self.stage.refresh()  # the status line may have changed
        if not self._ticking:
            self._tick()

    def _frame(self) -> None:
        """Draw the live rows."""
        self.ears.deliver()
        if self.questions.current is not None:
            self.inputs.refocus()  # a search may have ended
        try:
            self.stage.paint()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def _pieces(self, item: QueuedItem) -> Iterator[Piece]:
        now = asyncio.get_running_loop().time()
        if isinstance(item, str):
            yield note(clean_text(item), "yellow")
            return
        if isinstance(item, tuple):
            agent_id, chunk = item
            self.activity.on_chunk(agent_id, chunk, now)
            if agent_id == self.teller.primary:
                yield from self.stream.feed(chunk, now)
            return
        self.activity.on_event(item, now)
        self.turns.usage.add(item)
        self._count(item)
        streamed = False
        if isinstance(item, TranscriptEntry | LlmResponse):
            if item.agent_id == self.teller.primary:
                streamed = self.stream.has_shown
                yield from self.stream.end(now)
            if streamed and isinstance(item, TranscriptEntry) and item.role == "assistant":
                self._streamed = item.message_id
        yield from self.teller.render(item, streamed=streamed)

    def _count(self, event: Event) -> None:
        """Update the usage of the session."""
        self._usage.add(event)
        self.tree.on_event(event)
        if isinstance(event, AgentMoved) and event.agent_id == self.teller.primary:
            self._context_tokens = self._estimated_tokens()
        if isinstance(event, LlmResponse) and event.agent_id == self.teller.primary:
            self._context_tokens = context_tokens(event.usage) or self._context_tokens
        elif isinstance(event, TranscriptEdited) and event.agent_id == self.teller.primary:
            self._context_tokens = self._estimated_tokens()

    def _estimated_tokens(self) -> int | None:
        """Return an estimate of the tokens of a changed context, which no provider has counted."""
        agent = self.opened.primary
        return tokens_used(agent) if isinstance(agent, SmartAgent) else None

    def _turn_ended(self, result: TurnResult) -> None:
        """Print the result of a turn."""
        self.ears.deliver()
        self.activity.clear()
        pieces: list[Piece] = [*self.stream.end(asyncio.get_running_loop().time())]
        if result.answer is not None and result.answer.message_id != self._streamed:
            text = str(result.answer)
            is_stop = not result.answer.is_answer
            pieces += [note(clean_text(text), "yellow")] if is_stop else iter_prose(text)
        if result.error is not None:
            pieces.append(format_failure(result.error))
        elif result.stopped:
            hint = "; Enter continues" if has_open_calls(self.opened.primary) else ""
            pieces.append(note(f"stopped{hint}", "yellow"))
        if result.note:
            pieces.append(note(result.note))
        if result.answer is not None or result.usage.usage():
            pieces.append(summary(result.usage, result.seconds))
        if (result.stopped or result.error is not None) and self.turns.queued:
            self.inputs.insert(self.turns.queued.take_back())
        if result.seconds > LONG_TURN_S:
            self.stage.bell()
        self.stage.print(pieces)
        self.stage.refresh()  # the hint in the input has changed

    def _live_lines(self, width: int, height: int) -> list[Line]:
        """Return the live rows: the tail of the streamed text, busy agents, queued messages."""
        now = asyncio.get_running_loop().time()
        has_gaps = height >= MIN_ROOMY_ROWS and self.stage.printer.last is not None
        gap: list[Line] = [[]] if has_gaps else []
        asking = {question.request.agent for question in self.questions.waiting}
        below: list[Line] = []
        if self.tree.is_open:
            room = max((height - 2 * len(gap)) * 2 // 3, min(height, MIN_TREE_ROWS))
            below += self.tree.lines(width, room, now, asking=asking)
        elif self.turns.running:
            below += self.activity.lines(self._name, now, asking=asking, most=height // 2)
        below += self.turns.queued.lines(width)
        tail = self.stream.tail(width, max(height - len(below) - 3 * len(gap), 1))
        lines = [*([] if self.stream.is_continuation else gap), *tail] if tail else []
        lines += [*gap, *below] if below else []
        return [*lines, *gap]

    def _talks_with(self) -> str:
        """Return the name of the agent that the user talks with, if it is not the first one."""
        state = self.opened.session.state
        if state.primary in (None, state.root):
            return ""
        return clean_text(self.opened.primary.name)

    def _name(self, agent_id: AgentId) -> str:
        agent = self.opened.session.agents.get(agent_id)
        return (agent.name if agent else None) or agent_id

    def _tick(self) -> None:
        """Draw while an agent is busy: its duration changes."""
        self._ticking = self.turns.running
        if self._ticking:
            self.pace.draw_if_due()
            asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _status(self) -> Line:
        permissions = self.opened.runtime.world.permissions
        agent = self.opened.primary
        status = Status(
            model=format_model_name(agent.state.language_model),
            folder=folder_text(str(self.where.folder), self.where.user_home),
            mode=permissions.mode if permissions is not None else "",
            context_tokens=self._context_tokens,
            context_window=agent.window if isinstance(agent, SmartAgent) else None,
            cost=format_cost(self._usage) if self._usage.priced else "",
            hint=self.table.hinted,
            talks_with=self._talks_with(),
        )
        return status.line(self.stage.width)

    def _question_lines(self) -> list[Line]:
        question = self.questions.current
        if question is None:
            return []
        others = len(self.questions.waiting) - 1
        return ask_lines(question, self.stage.width, self.stage.rows // 2, others=others)

    def _question_changed(self) -> None:
        """Show the next question, or none.

        A line that was typed for a question that was taken back is no answer to the next one.
        """
        question, before = self.questions.current, self._question
        if question is before:
            self.stage.refresh()  # the number of queued questions
            return
        self._question = question
        if before is not None:
            self._restart_clock(before.request.agent)
        if half_typed := self.inputs.answer.text:
            self.inputs.insert(half_typed)
            self.inputs.answer.reset()
        if question is None:
            self.arming.end()
            asyncio.get_running_loop().call_later(BRING_BACK_S, self._bring_back_draft)
        else:
            self.arming.begin()
            if self.turns.seconds > LONG_TURN_S:
                self.stage.bell()
        self._refocus()

    def _restart_clock(self, name: str) -> None:
        """Exclude the wait for the user's answer from the running time of an agent."""
        now = asyncio.get_running_loop().time()
        for agent_id in self.activity.agents:
            if self._name(agent_id) == name:
                self.activity.restart(agent_id, now)

    def _bring_back_draft(self) -> None:
        """Restore the stored draft, unless another question is shown."""
        if self.questions.current is None and self.inputs.aside is not None:
            self.inputs.bring_back()
            self.stage.refresh()

    def _question_shown_again(self) -> None:
        """Restart the key guard after another program had the terminal."""
        if self.questions.current is not None:
            self.arming.begin()
            self._refocus()

    def _refocus(self) -> None:
        self.inputs.refocus()
        self.stage.refresh()

    def _leave(self, code: int = 0) -> None:
        """End the chat."""
        if self.stage.app.is_running and not self.stage.app.is_done:
            self.stage.app.exit(result=code)

    def _fail(self, error: BaseException) -> None:
        """End the chat; `run` raises the error."""
        self._error = self._error or error
        self._leave()


def warm_up(model: Model | None) -> None:
    """Import slow modules while the user types."""
    with exclude_from_gc():
        from harken.terminal import markdown

        markdown.render_markdown("`x`", 20)
        connect = getattr(model, "warm_up", None)
        if connect is not None:
            with suppress(Exception):  # the same error is raised again by the first request
                connect()
