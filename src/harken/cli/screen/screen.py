"""The screen: a chat in a terminal. It listens to the session and shows what it hears.

It owns nothing that the log has not, but what is being typed and what waits to be sent.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Thread

from harken.agents.smart import SmartAgent
from harken.cli.opening import Opened
from harken.cli.screen.activity import Activity
from harken.cli.screen.arming import Arming
from harken.cli.screen.calls import whole
from harken.cli.screen.completion import InputCompleter
from harken.cli.screen.ears import Heard
from harken.cli.screen.face import Face
from harken.cli.screen.failures import failure
from harken.cli.screen.greeting import greeting, model_text, past_events, replay
from harken.cli.screen.hands import Hands
from harken.cli.screen.keys import bindings
from harken.cli.screen.layout import Inputs, Shown
from harken.cli.screen.pace import Pace
from harken.cli.screen.piece import Piece, Rows, note
from harken.cli.screen.questions import ask_lines, preview_lines
from harken.cli.screen.stage import Stage
from harken.cli.screen.status import Status, context_tokens, folder_text, summary
from harken.cli.screen.stream import Stream
from harken.cli.screen.styled import Line, clean
from harken.cli.screen.surroundings import Surroundings
from harken.cli.screen.telling import Teller, prose
from harken.cli.screen.turns import Ended, Turns
from harken.cli.tally import Tally, cost_text
from harken.core.events import Event, LlmResponse, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.world.user import Wanted

TICK_S = 0.1
HINT_S = 2.0
ROOMY = 8
"""From so many rows on, empty lines stand between what is live."""
LONG_TURN_S = 30.0
"""A turn longer than this rings when it ends: the user may have looked away."""


class Screen:
    """One chat in a terminal."""

    def __init__(self, face: Face, opened: Opened, where: Surroundings) -> None:
        """Prepare everything; nothing is drawn before `run`."""
        self.opened, self.session, self.runtime = opened, opened.session, opened.runtime
        self.where, self.ears, self.questions = where, face.ears, face.questions
        self.pace = Pace(self._frame)
        self.ears.take, self.ears.streaming = self._take, self.pace.ask
        self.questions.changed = self._question_changed
        self.activity, self.stream = Activity(tools=opened.runtime.world.tools), Stream()
        self.teller = Teller(opened.session.state, opened.runtime.world.tools)
        self.arming = Arming(self._refocus)
        self.turns = Turns(opened, self._turn_ended, self._fail)
        shown = Shown(
            question=lambda: self.questions.current,
            question_lines=self._question_lines,
            is_armed=lambda: self.arming.armed,
            is_running=lambda: self.turns.running,
            status=self._status,
            columns=lambda: self.stage.columns,
            rows=lambda: self.stage.rows,
        )
        self.inputs = Inputs(shown, InputCompleter(where.folder), where.history)
        self.inputs.buffer.on_text_changed += lambda _: self.arming.touch()
        self.stage = Stage(where, self.inputs.layout, self._live_lines)
        hands = Hands(self, self.inputs, self.stage, self.turns, self.questions, self.arming)
        self.stage.app.key_bindings = bindings(hands)
        self._used = Tally()
        self._context_tokens: int | None = None
        self._hint = ""
        self._ticking = False
        self._streamed: MessageId | None = None
        """The last answer that was shown while it streamed."""

    async def run(self) -> int:
        """Talk until the user ends it; return the exit code. Raises what a turn must not raise."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, self._exit, 128 + number)
        self._begin()
        Thread(target=self._warm_up, name="harken warm-up", daemon=True).start()
        self.ears.open()
        try:
            code: int = await self.stage.app.run_async(
                handle_sigint=False, set_exception_handler=False
            )
        except EOFError:
            code = 0  # the terminal is gone
        finally:
            await self.turns.close()
            self.ears.close()
        return code

    def _begin(self) -> None:
        """Greet, and show the end of an old session."""
        pieces: list[Piece] = [*greeting(self.opened, self.where)]
        past = past_events(self.opened)
        for event in past:
            self._count(event)
        pieces += replay(self.opened, past)
        self.session.listen(self.ears.on_event)
        self.stage.print(pieces)

    def _warm_up(self) -> None:
        """Import what is slow while the user types."""
        from harken.cli.screen import typeset

        typeset.typeset("`x`", 20)
        agent = self.opened.primary
        model = agent.model if isinstance(agent, SmartAgent) else None
        warm_up = getattr(model, "warm_up", None)
        if warm_up is not None:
            with suppress(Exception):  # it will fail again, where it is asked
                warm_up()

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
        if isinstance(event, LlmResponse) and event.agent_id == self.teller.primary:
            self._context_tokens = context_tokens(event.usage) or self._context_tokens

    def _turn_ended(self, ended: Ended) -> None:
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
        elif ended.said is None:
            rest = "; Enter goes on with it" if self.opened.primary.cut_off else ""
            pieces.append(note(f"stopped{rest}", "yellow"))
        if ended.said is not None or ended.used.usage():
            pieces.append(summary(ended.used, ended.seconds))
        if ended.said is None and self.turns.queued:
            self.inputs.put(self.turns.queued.take_back())
        if ended.seconds > LONG_TURN_S:
            self.stage.bell()
        self.stage.print(pieces)

    def _live_lines(self, width: int, height: int) -> list[Line]:
        """Return what changes often: the end of what streams, who is busy, what waits."""
        now = asyncio.get_running_loop().time()
        has_gaps = height >= ROOMY and self.stage.printer.last is not None
        gap: list[Line] = [[]] if has_gaps else []
        names = {id_: state.name or id_ for id_, state in self.session.agents.items()}
        asking = {question.asked.agent for question in self.questions.waiting}
        below: list[Line] = []
        if self.turns.running:
            below += self.activity.lines(names, now, asking=asking, most=height // 2)
        below += self.turns.queued.lines(width)
        tail = self.stream.tail(width, max(height - len(below) - 3 * len(gap), 1))
        lines = [*([] if self.stream.joined else gap), *tail] if tail else []
        lines += [*gap, *below] if below else []
        return [*lines, *gap]

    def _tick(self) -> None:
        """Draw while somebody is busy: times go on."""
        self._ticking = self.turns.running
        if self._ticking:
            self.pace.ask()
            asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _status(self) -> Line:
        permissions = self.runtime.world.permissions
        agent = self.opened.primary
        status = Status(
            model=model_text(agent.language_model),
            folder=folder_text(str(self.where.folder), self.where.user_home),
            mode=permissions.mode if permissions is not None else "",
            context_tokens=self._context_tokens,
            cost=cost_text(self._used) if self._used.priced else "",
            hint=self._hint,
        )
        return status.line(self.stage.width)

    def _question_lines(self) -> list[Line]:
        question = self.questions.current
        if question is None:
            return []
        others = len(self.questions.waiting) - 1
        return ask_lines(question, self.stage.width, self.stage.rows // 2, others=others)

    def _question_changed(self) -> None:
        """Show the next question, or none."""
        if self.questions.current is None:
            self.arming.end()
        else:
            self.arming.begin()
        self._refocus()

    def _refocus(self) -> None:
        self.inputs.refocus()
        self.stage.refresh()

    # The table, on which hands and slash commands act.

    @property
    def doing(self) -> Mapping[AgentId, str]:
        """What busy agents are doing."""
        return {agent: doing.what for agent, doing in self.activity.agents.items()}

    def say(self, text: str) -> None:
        """Print what a slash command says."""
        lines: list[Line] = [[("", clean(line))] for line in text.split("\n")]
        self.stage.print([Rows("summary", lines)])

    def hint(self, text: str) -> None:
        """Show something in the status line for a moment."""
        self._hint = text
        self.stage.refresh()
        asyncio.get_running_loop().call_later(HINT_S, self._end_hint)

    def _end_hint(self) -> None:
        self._hint = ""
        self.stage.refresh()

    def show_result(self) -> None:
        """Print the last result that was folded, whole."""
        entry = self.teller.last_folded
        if entry is None:
            self.hint("no result was folded")
        else:
            self.stage.print([Rows("summary", whole(entry.content))])

    def show_preview(self) -> None:
        """Print all of what a question is about."""
        question = self.questions.current
        if question is not None and isinstance(question.asked, Wanted):
            self.stage.print([Rows("summary", preview_lines(question.asked))])

    def quit(self) -> None:
        """End the chat."""
        self._exit(0)

    def _exit(self, code: int) -> None:
        if self.stage.app.is_running and not self.stage.app.is_done:
            self.stage.app.exit(result=code)

    def _fail(self, error: BaseException) -> None:
        """End the chat with an error."""
        if self.stage.app.is_running and not self.stage.app.is_done:
            self.stage.app.exit(exception=error)
