"""The screen: a chat in a terminal. It listens to the session and shows what it hears.

It owns nothing that the log has not, but what is being typed and what waits to be sent.

Pace: what changes often is drawn at once, and then not more often than the eye can follow.

Lasting: what is made while the chat begins, and is there until it ends.

With the SDK of a model that is more than a hundred thousand objects. A full collection looks at
them all, and nothing is drawn meanwhile: a tenth of a second, in the middle of a word or an answer.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread

from harken.agents.smart_agent import SmartAgent
from harken.agents.turn.compaction import tokens_used
from harken.chat.open_chat import OpenChat
from harken.chat.render.activity import AgentActivity
from harken.chat.render.agent_tree import LiveTree
from harken.chat.render.answer_stream import AnswerStream
from harken.chat.render.event_printer import EventPrinter, failure, prose
from harken.chat.render.greeting import greeting, past_events, replay
from harken.chat.render.status_line import Status, context_tokens, folder_text, summary
from harken.chat.screen.command_host import CommandHost
from harken.chat.screen.completion import InputCompleter
from harken.chat.screen.early_keys import early_keys_kept
from harken.chat.screen.event_queue import Heard, ScreenHandle
from harken.chat.screen.key_actions import KeyActions, KeyGuard
from harken.chat.screen.key_bindings import bindings
from harken.chat.screen.layout import Inputs, LayoutState
from harken.chat.screen.prompts import ScreenPrompt, ask_lines
from harken.chat.screen.terminal import ScreenTerminal
from harken.chat.screen.turns import TurnResult, Turns
from harken.chat.usage import UsageTotal, cost_text
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
from harken.terminal.event_lines import model_text
from harken.terminal.pieces import Piece, note
from harken.terminal.styled_text import Line, clean


@contextmanager
def lasting() -> Iterator[None]:
    """Collect nothing until the end, and from then on pass over all that is there by then.

    What nothing refers to any more is still freed, but for cycles that are there at the end.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


FRAME_S = 0.05


@dataclass(slots=True)
class FrameLimiter:
    """Calls `draw` when asked, at most every `frame_s` seconds; the last wish is never lost."""

    draw: Callable[[], None]
    frame_s: float = FRAME_S
    _drawn_at: float = float("-inf")
    _later: asyncio.Handle | None = field(default=None)

    def ask(self) -> None:
        """Draw as soon as it may be, from the running event loop."""
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._drawn_at + self.frame_s - loop.time()
        if wait > 0:
            self._later = loop.call_later(wait, self._draw, loop)
        else:
            self._later = loop.call_soon(self._draw, loop)

    def beat(self) -> None:
        """Draw unless that was done lately, from the running event loop.

        What is asked for next does not wait for it: words that come are not held up by a clock.
        """
        loop = asyncio.get_running_loop()
        if self._later is None and loop.time() - self._drawn_at >= self.frame_s:
            loop.call_soon(self.draw)

    def _draw(self, loop: asyncio.AbstractEventLoop) -> None:
        self._later, self._drawn_at = None, loop.time()
        self.draw()


TICK_S = 0.1
ROOMY = 8
"""From so many rows on, empty lines stand between what is live."""
FEWEST_OF_TREE = 6
"""So many rows the tree of agents has where there is room; a high terminal leaves it two thirds."""
BRING_BACK_S = 0.3
"""Questions of several agents come so soon after each other: a draft stays aside for all."""
LONG_TURN_S = 30.0
"""A turn that runs longer rings when it ends or asks: the user may have looked away."""


class Screen:
    """One chat in a terminal."""

    def __init__(
        self, face: ScreenHandle, opened: OpenChat, where: TerminalEnvironment, *, draft: str = ""
    ) -> None:
        """Prepare everything; nothing is drawn before `run`. `draft` stands in the input then."""
        self.opened, self.where = opened, where
        self.ears, self.questions = face.ears, face.questions
        self.pace = FrameLimiter(self._frame)
        self.ears.take, self.ears.streaming = self._take, self.pace.ask
        self.questions.changed = self._question_changed
        self.activity, self.stream = AgentActivity(tools=opened.runtime.world.tools), AnswerStream()
        self.teller = EventPrinter(opened.session.state, opened.runtime.world.tools)
        self.arming = KeyGuard(self._refocus, lambda: self.inputs.is_busy)
        self.turns = Turns(opened, self._turn_ended, self._fail)
        shown = LayoutState(
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
        self.inputs = Inputs(shown, completer, where.history)
        self.inputs.put(draft)
        self.inputs.buffer.on_text_changed += lambda _: self.arming.touch()
        self.stage = ScreenTerminal(where, self.inputs.layout, self._live_lines)
        self.tree = LiveTree(opened.session.state, self.activity)
        self.table = CommandHost(
            opened, self.stage, self.teller, self.activity, self.questions, self.turns, self._leave
        )
        self.table.tree = self.tree
        self.stage.on_return = self._question_shown_again
        self.stage.app.after_render += lambda _: self.arming.drawn()
        self.stage.app.key_processor.before_key_press += lambda _: self.arming.touch()
        hands = KeyActions(self.table, self.inputs, self.turns, self.arming)
        self.stage.app.key_processor.before_key_press += lambda _: hands.note_key()
        self.stage.app.key_bindings = bindings(hands)
        self._used = UsageTotal()
        self._context_tokens: int | None = None
        self._ticking = False
        self._error: BaseException | None = None
        self._question: ScreenPrompt | None = None
        """The question that is shown."""
        self._streamed: MessageId | None = None
        """The last answer that was shown while it streamed."""

    async def run(self) -> int:
        """Talk until the user ends it; return the exit code. Raises what a turn must not raise."""
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
                with early_keys_kept(self.stage.app.input):
                    code: int = await self.stage.app.run_async(
                        handle_sigint=False, set_exception_handler=False
                    )
            except EOFError:
                code = 0  # the terminal is gone
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
        """Greet, and show the end of an old session."""
        pieces: list[Piece] = [*greeting(self.opened, self.where)]
        past = past_events(self.opened)
        for event in past:
            self._count(event)
        pieces += replay(self.opened, past)
        self.opened.session.add_listener(self.ears.on_event)
        self.stage.print(pieces)

    def _take(self, batch: Sequence[Heard]) -> None:
        """Show what was heard."""
        try:
            pieces = [piece for heard in batch for piece in self._pieces(heard)]
        except Exception as error:  # noqa: BLE001 - raised by `run`, not inside an agent's turn
            self._fail(error)
            return
        if pieces:
            self.stage.print(pieces)
        if any(not isinstance(heard, tuple) for heard in batch):
            self.stage.refresh()  # what the status line says may have changed
        if not self._ticking:
            self._tick()

    def _frame(self) -> None:
        """Draw what changes often."""
        self.ears.give_on()
        if self.questions.current is not None:
            self.inputs.refocus()  # a search may have ended
        try:
            self.stage.paint()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def _pieces(self, heard: Heard) -> Iterator[Piece]:
        now = asyncio.get_running_loop().time()
        if isinstance(heard, str):
            yield note(clean(heard), "yellow")
            return
        if isinstance(heard, tuple):
            agent_id, chunk = heard
            self.activity.hear_chunk(agent_id, chunk, now)
            if agent_id == self.teller.primary:
                yield from self.stream.take(chunk, now)
            return
        self.activity.hear(heard, now)
        self.turns.used.add(heard)
        self._count(heard)
        streamed = False
        if isinstance(heard, TranscriptEntry | LlmResponse):
            if heard.agent_id == self.teller.primary:
                streamed = self.stream.has_shown
                yield from self.stream.end(now)
            if streamed and isinstance(heard, TranscriptEntry) and heard.role == "assistant":
                self._streamed = heard.message_id
        yield from self.teller.tell(heard, streamed=streamed)

    def _count(self, event: Event) -> None:
        """Keep the sums of the session."""
        self._used.add(event)
        self.tree.hear(event)
        if isinstance(event, AgentMoved) and event.agent_id == self.teller.primary:
            self._context_tokens = self._estimated_tokens()
        if isinstance(event, LlmResponse) and event.agent_id == self.teller.primary:
            self._context_tokens = context_tokens(event.usage) or self._context_tokens
        elif isinstance(event, TranscriptEdited) and event.agent_id == self.teller.primary:
            self._context_tokens = self._estimated_tokens()

    def _estimated_tokens(self) -> int | None:
        """Return how many tokens the context has now that it is another; nobody has counted."""
        agent = self.opened.primary
        return tokens_used(agent) if isinstance(agent, SmartAgent) else None

    def _turn_ended(self, ended: TurnResult) -> None:
        """Show how a turn ended."""
        self.ears.give_on()
        self.activity.clear()
        pieces: list[Piece] = [*self.stream.end(asyncio.get_running_loop().time())]
        if ended.said is not None and ended.said.message_id != self._streamed:
            text = str(ended.said)
            is_stop = text.startswith("[stopped] ")
            pieces += [note(clean(text), "yellow")] if is_stop else prose(text)
        if ended.error is not None:
            pieces.append(failure(ended.error))
        elif ended.stopped:
            rest = "; Enter goes on with it" if self.opened.primary.has_open_calls else ""
            pieces.append(note(f"stopped{rest}", "yellow"))
        if ended.note:
            pieces.append(note(ended.note))
        if ended.said is not None or ended.used.usage():
            pieces.append(summary(ended.used, ended.seconds))
        if (ended.stopped or ended.error is not None) and self.turns.queued:
            self.inputs.put(self.turns.queued.take_back())
        if ended.seconds > LONG_TURN_S:
            self.stage.bell()
        self.stage.print(pieces)
        self.stage.refresh()  # what the input invites to has changed

    def _live_lines(self, width: int, height: int) -> list[Line]:
        """Return what changes often: the end of what streams, who is busy, what waits."""
        now = asyncio.get_running_loop().time()
        has_gaps = height >= ROOMY and self.stage.printer.last is not None
        gap: list[Line] = [[]] if has_gaps else []
        asking = {question.asked.agent for question in self.questions.waiting}
        below: list[Line] = []
        if self.tree.is_open:
            room = max((height - 2 * len(gap)) * 2 // 3, min(height, FEWEST_OF_TREE))
            below += self.tree.lines(width, room, now, asking=asking)
        elif self.turns.running:
            below += self.activity.lines(self._name, now, asking=asking, most=height // 2)
        below += self.turns.queued.lines(width)
        tail = self.stream.tail(width, max(height - len(below) - 3 * len(gap), 1))
        lines = [*([] if self.stream.joined else gap), *tail] if tail else []
        lines += [*gap, *below] if below else []
        return [*lines, *gap]

    def _talks_with(self) -> str:
        """Return with whom the user talks, where that is not the agent of the beginning."""
        state = self.opened.session.state
        if state.primary in (None, state.root):
            return ""
        return clean(self.opened.primary.name)

    def _name(self, agent_id: AgentId) -> str:
        agent = self.opened.session.agents.get(agent_id)
        return (agent.name if agent else None) or agent_id

    def _tick(self) -> None:
        """Draw while somebody is busy: times go on."""
        self._ticking = self.turns.running
        if self._ticking:
            self.pace.beat()
            asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _status(self) -> Line:
        permissions = self.opened.runtime.world.permissions
        agent = self.opened.primary
        status = Status(
            model=model_text(agent.language_model),
            folder=folder_text(str(self.where.folder), self.where.user_home),
            mode=permissions.mode if permissions is not None else "",
            context_tokens=self._context_tokens,
            context_window=agent.window if isinstance(agent, SmartAgent) else None,
            cost=cost_text(self._used) if self._used.priced else "",
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
            self.stage.refresh()  # the number of questions that wait behind it
            return
        self._question = question
        if before is not None:
            self._restart_clock(before.asked.agent)
        if half_typed := self.inputs.answer.text:
            self.inputs.put(half_typed)
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
        """Do not count as running time how long an agent waited for the user's answer."""
        now = asyncio.get_running_loop().time()
        for agent_id in self.activity.agents:
            if self._name(agent_id) == name:
                self.activity.restart(agent_id, now)

    def _bring_back_draft(self) -> None:
        """Put the draft that was set aside into the input, unless the next question came."""
        if self.questions.current is None and self.inputs.aside is not None:
            self.inputs.bring_back()
            self.stage.refresh()

    def _question_shown_again(self) -> None:
        """Wait again before keys answer: another program had the terminal."""
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
    """Import what is slow to import, while the user types."""
    with lasting():
        from harken.terminal import markdown

        markdown.typeset("`x`", 20)
        connect = getattr(model, "warm_up", None)
        if connect is not None:
            with suppress(Exception):  # what fails here fails again where it is asked
                connect()
