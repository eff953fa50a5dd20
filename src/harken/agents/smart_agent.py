"""`SmartAgent`: a model decides.

The loop: ask the model with the context; if it acts, run its calls, let it see the results, and
ask again; if it does not, what it said is the answer. Everything is in the log before it has an
effect, so the loop can be cut anywhere and entered again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import msgspec

from harken.agents.agent import Agent
from harken.agents.agent_classes import get_agent_class, register_agent_class
from harken.agents.budget import Budget
from harken.agents.guards import is_made
from harken.agents.hooks import smart_hook
from harken.agents.hooks.hook import TurnEnded, TurnStopped
from harken.agents.hooks.pending_answer import MAX_DENIALS, denials, pending_answer, was_blocked
from harken.agents.runtime import AgentRuntime
from harken.agents.template_setup import reach
from harken.agents.templates.skills import skills_of
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.agents.turn.act import act, log_result
from harken.agents.turn.compaction import CompactionResult, compact, tokens_used
from harken.agents.turn.hook_review import (
    STOPPED,
    TAKEN_OVER,
    comment_on,
    is_asked,
    judge_answer,
    log_visible_answer,
    new_inputs,
    new_results,
    send_back,
)
from harken.agents.turn.interrupted import abandon, note_on
from harken.agents.turn.model_call import HALF_A_CALL, ModelCall
from harken.agents.turn.request import ask
from harken.core.arguments import check_arguments
from harken.core.events import TranscriptEntry
from harken.core.ids import MessageId
from harken.core.logged_string import LoggedString
from harken.core.verdict import (
    HookQuestion,
    Rewrite,
    UnparsableVerdict,
    Verdict,
    unfenced,
    verdict_in,
)
from harken.errors import AgentBusy, BudgetExceeded, ModelError
from harken.llm.base import Model
from harken.session.session import Session
from harken.session.state import AgentState, OpenCall
from harken.world.result import ToolResult

WORTH = 0.2
"""A context is compacted by itself where such a part of it gives way: less is not worth a call."""
NOTHING_TO_SUM_UP = "too little of it could give way to a summary"
AGAIN = 0.05
"""Where compacting did not help it is tried again when such a part of the window is taken more."""


@check_arguments
@register_agent_class("smart")
class SmartAgent(ToolAgent):
    """An agent whose language model decides what to say and do."""

    can_unload: ClassVar[bool] = True

    def __init__(
        self,
        session: Session,
        system_prompt: str | None = None,
        init_prompt: Sequence[Mapping[str, Any]] | None = None,
        *,
        runtime: AgentRuntime | None = None,
        model: Model | str | None = None,
        tools: Sequence[str] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Make an agent; see `Agent`. `tools` names what it may use (None: all there is)."""
        runtime = runtime or AgentRuntime()
        if model is not None:
            runtime = replace(runtime, model=model)
        super().__init__(session, system_prompt, init_prompt, runtime=runtime)
        self._model_name = runtime.default_model.name if runtime.default_model is not None else None
        self._given: dict[str, Any] = {
            "tools": None if tools is None else list(tools),
            "budget": budget,
            "parameters": runtime.parameters_for(self._model_name) or None,
        }

    def restore(self, state: AgentState) -> None:
        """Everything is in the state; there is nothing beside it."""
        self._given, self._model_name = {}, None

    def begin(self) -> None:
        """Set up what is not in the log because it can be derived."""
        super().begin()
        self._model: Model | None = None
        self._in_vain = 0.0
        """Below so many tokens it is not tried again to compact the context: it did not help."""
        self._given_out: MessageId | None = None
        """The answer that it gave last, after all hooks had judged it."""

    def spec(self) -> dict[str, Any]:
        """Return what the birth records: kind, allowed tools, budget, template."""
        given = {name: value for name, value in self._given.items() if value is not None}
        spec: dict[str, Any] = msgspec.to_builtins({**super().spec(), **given})
        return spec

    def make_subagent(
        self,
        system_prompt: str | None,
        tools: Sequence[str] | None,
        template: Template | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> SmartAgent:
        """Make, without its birth, an agent that shares this agent's world and models."""
        kind = get_agent_class(SmartAgent.kind, self.runtime)  # what a revival would make of it
        assert issubclass(kind, SmartAgent)
        child: SmartAgent = kind(self.session, system_prompt, runtime=self.runtime, tools=tools)
        child._model_name = (template and template.model) or self.language_model
        child._given["parameters"] = self.runtime.parameters_for(child._model_name) or None
        child._given["template"] = None if template is None else template.origin
        child._given["permission"] = None if template is None else template.permission
        child._given["skills"] = self._skills_for(template)
        child._given |= spec or {}
        return child

    def _skills_for(self, template: Template | None) -> list[str] | None:
        """Return the skills of a subagent: never more than its parent's, nor its template's."""
        is_born = self.agent_id in self.session.agents
        own = skills_of(self) if is_born else self._given.get("skills")
        limit = None if template is None else template.skills
        if limit is None:
            return own
        return [name for name in limit if own is None or name in own]

    async def judge_question(
        self, question: HookQuestion, asked: MessageId
    ) -> tuple[Verdict, MessageId]:
        """Return its answer as a verdict; where it is none, it is asked once more.

        Raises TurnEnded where it moved instead of giving one, UnparsableVerdict where what it says
        is none.
        """
        said = await self._answer_as_hook()
        try:
            verdict = verdict_in(str(said), question.point)
        except UnparsableVerdict:
            if not smart_hook.ask_again(self, question, said):
                raise
            said = await self._answer_as_hook()
            verdict = verdict_in(str(said), question.point)
        if question.point == "action" and isinstance(verdict, Rewrite):
            verdict = Rewrite(unfenced(verdict.text))
        return verdict, said.message_id or asked

    async def _answer_as_hook(self) -> LoggedString:
        stood, watched = self._stands, self.state.parent
        said = await self.response()
        if self._stands not in (stood, ("gone", watched)):  # it moved
            raise TurnEnded
        return said

    def after_verdict(self) -> None:
        """Leave, or drop what it was asked, where that is due."""
        smart_hook.after_verdict(self)

    def copy_for(self, agent: Agent) -> SmartAgent | None:
        """Return a hook that was told the same, where it was born as one; see `Agent`.

        One that an agent made for itself has guards because it may act; its copies only judge.
        """
        told = smart_hook.told_of_copy(self)
        if told is None:
            return None
        tools = [] if is_made(self.state.spec) else self.allowed
        return self.make_subagent(told, tools, None, smart_hook.spec_of_copy(self.state.spec))

    @property
    def language_model(self) -> str | None:
        """The name of its model, as the log has it; before its birth, as it was given."""
        state = self.session.agents.get(self.agent_id)
        return state.language_model if state is not None else self._model_name

    @property
    def model(self) -> Model:
        """Its model. Raises ConfigError where there is none with its name."""
        name = self.language_model
        if self._model is None or self._model.name != name:
            self._model = self.runtime.get_model(name)
        return self._model

    async def response(self, input: str | None = None) -> LoggedString:
        """Answer what was heard; with `input`, hear it first.

        Goes on where a crash, a failed model call or a cancellation cut the last turn off.
        Returns the final text with its id; where a budget ends the turn, a text that says so.
        Raises ModelError, LogWriteError; the session can be resumed after either. Raises
        AgentBusy where it is answering already.
        """
        with self._busy():
            try:
                if input is not None:
                    await self._finish_calls()
                    self.hear_news()
                    super().harken(input)
                    input = None
                said = await self._turn()
            except BudgetExceeded as error:
                said = self._stopped(str(error))
            except TurnStopped as error:
                self._leave_undone(STOPPED)
                said = self._stopped(str(error))
            except TurnEnded:
                self._give_way(input)
                said = self._moved()
        self.session.sync()
        return said

    def _give_way(self, unheard: str | None = None) -> None:
        """End a turn in which somebody took its place, who hears then what it has not heard."""
        self._leave_undone(TAKEN_OVER)
        self.forget_comments()
        above = self.state.parent
        if unheard is not None and above is not None:
            self.agent_by_id(above).harken(unheard)

    @property
    def has_open_calls(self) -> bool:
        """Whether it owes an answer, also one that not all hooks have judged; see `Agent`."""
        if super().has_open_calls:
            return True
        entry = pending_answer(self)
        return was_blocked(self) if entry is None else entry.message_id != self._given_out

    def harken(self, input: str) -> None:
        """Add a user message to the transcript and log it; see `Agent`.

        Raises AgentBusy in the middle of a turn: between a call and its result, or a request
        and its answer, a message would be out of place.
        """
        self.check_free()
        super().harken(input)

    def check_free(self) -> None:
        """Raise AgentBusy where it is in the middle of a turn and can hear nothing now."""
        if self.gate.busy:
            raise AgentBusy(self.name)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Be in the middle of a turn."""
        self.check_free()
        self.gate.enter()
        try:
            yield
        except BaseException:
            self.forget_comments()
            raise
        finally:
            self.gate.leave()

    async def _turn(self) -> LoggedString:
        """Ask and act until there is an answer."""
        stands = self._stands
        await self._finish_calls()
        self.hear_news()
        await comment_on(self, "input", new_inputs(self))
        entry = pending_answer(self) or self._last_utterance()
        for denied in range(denials(self), MAX_DENIALS):
            while entry is None or entry.tool_calls:
                entry = await self._step()
                if self._stands != stands:  # a move of its own
                    raise TurnEnded
            judgement = await judge_answer(self, entry)
            if judgement.denied is None:
                said, self._given_out = log_visible_answer(self, entry, judgement), entry.message_id
                return said
            send_back(self, judgement.denied, denied)
            entry = None
        return self._stopped(f"hooks blocked the answer {MAX_DENIALS} times")

    @property
    def _stands(self) -> tuple[Any, ...]:
        """Return where it stands: a move in the middle of a turn ends the turn."""
        return self.state.place, self.state.parent

    async def _step(self) -> TranscriptEntry:
        """Ask the model once and run its calls; return what it said."""
        await comment_on(self, "input", self.hear_news())
        await self._make_room()
        asked = await self._ask()
        self.checkpoint_if_due("turn_boundary")
        calls = list(self.state.open_calls.values())
        half = calls.pop() if calls and asked.ends_in_half_a_call else None
        if calls:
            await self._act(calls)
        if half is not None:
            log_result(self, half, ToolResult(HALF_A_CALL, is_error=True))
        if asked.answer.tool_calls:
            self.checkpoint_if_due("tool_call")
        return asked.answer

    async def _ask(self) -> ModelCall:
        """Ask the model; where it finds the context too long, compact and ask once more."""
        try:
            return await self._ask_once()
        except ModelError as error:
            if error.why != "context_too_long" or self.runtime.compact_at is None:
                raise
            await self._shrink(error)
        try:
            return await self._ask_once()
        except ModelError as error:
            if error.why == "context_too_long":
                said = "it was compacted, and what is left is too long still"
                raise _too_long(error, said) from error
            raise

    async def _ask_once(self) -> ModelCall:
        """Call the model once, with everything about the call in the log."""
        await reach(self)
        held_back = is_asked(self, "response")
        on_chunk = None if held_back else self.runtime.on_chunk
        return await ask(self, self.model, self.toolbox(), on_chunk)

    async def _shrink(self, refusal: ModelError) -> None:
        """Compact a context that a provider refused. Raises ModelError where that cannot be."""
        try:
            done = await compact(self, self.model, pending=True, least=WORTH, fits=False)
        except ModelError as error:
            raise _too_long(refusal, f"it could not be compacted ({error})") from error
        if done is None:
            raise _too_long(refusal, NOTHING_TO_SUM_UP)

    def is_full(self) -> bool:
        """Whether its context is to be compacted before its model is asked again."""
        share, window = self.runtime.compact_at, self.window
        if share is None or window is None:
            return False
        return tokens_used(self) >= max(share * window, self._in_vain)

    async def _make_room(self) -> None:
        """Compact a context that is nearly full; where that does not help, say so and go on."""
        if not self.is_full():
            return
        why = NOTHING_TO_SUM_UP
        try:
            if await compact(self, self.model, pending=True, least=WORTH) is not None:
                why = "what is left is too long"
        except ModelError as error:
            why = str(error)
        share, window, left = self.runtime.compact_at, self.window, tokens_used(self)
        if share is not None and window is not None and left >= share * window:
            self._in_vain = left + AGAIN * window
            full = f"takes {left / window:.0%} of what its model reads"
            self.runtime.notify(
                f"{self.name}: the context {full}, and could not be compacted: {why}"
            )

    async def compact(self, instructions: str = "") -> CompactionResult | None:
        """Put a summary in the place of what it has in its context; None: that is too little.

        `instructions` say what the summary shall keep. Everything stays in the log and in the
        commits. Raises ModelError and BudgetExceeded, where nothing has changed, and AgentBusy in
        the middle of a turn. What hooks are still to judge is not lost in it.
        """
        with self._busy():
            await self._settled(self._finish_calls())
            await self._settled(comment_on(self, "input", new_inputs(self)))
            if self.has_open_calls and pending_answer(self) is not None:
                raise ModelError(f"the last answer of {self.name} waits for its hooks: go on first")
            done = await compact(
                self, self.model, pending=self.has_open_calls, instructions=instructions
            )
        self.session.sync()
        return done

    @property
    def window(self) -> int | None:
        """How many tokens its model reads at once; None: that is not known."""
        model = self.model
        own: int | None = getattr(model, "context_window", None)
        return own or self.runtime.windows.tokens(model.name)

    async def _act(self, calls: Sequence[OpenCall]) -> None:
        """Run calls; then let hooks comment on the results."""
        before = len(self.session.context(self.agent_id))
        await act(self, calls)
        self.deliver()
        results = [m for m in self.session.context(self.agent_id)[before:] if m.role == "tool"]
        await comment_on(self, "result", results)

    async def finish_calls(self) -> None:
        """Give calls that were cut off a result: idempotent tools are simply run again.

        Raises AgentBusy in the middle of a turn, where calls are under way.
        """
        with self._busy():
            await self._settled(self._finish_calls())

    async def _settled(self, finishing: Awaitable[None]) -> None:
        """Finish what was cut off; where a hook ends that, calls have results that say so."""
        try:
            await finishing
        except TurnEnded:
            self._give_way()
        except TurnStopped:
            self._leave_undone(STOPPED)

    async def _finish_calls(self) -> None:
        """Finish what was cut off of acting, also what hooks were to be asked after it."""
        for call in list(self.state.open_calls.values()):
            if self.is_retryable(call):
                await act(self, [call])
            else:
                self.close_call(call)
        self.deliver()
        await comment_on(self, "result", new_results(self))

    def close_call(self, call: OpenCall) -> MessageId:
        """Give a call without a result one that says how far it had come."""
        abandon(self, call)
        return super().close_call(call)

    def _leave_undone(self, why: str) -> None:
        """Give the calls that the end of the turn cut off a result that says why."""
        for call in list(self.state.open_calls.values()):
            log_result(self, call, ToolResult(why.format(call.name), is_error=True))

    def interruption_note(self, call: OpenCall) -> str:
        """Return what more is known of a call that was cut off."""
        return note_on(self, call)

    def _last_utterance(self) -> TranscriptEntry | None:
        """Return the answer that stands at the end of the context: nothing was heard since."""
        context = self.session.context(self.agent_id)
        last = context[-1] if context else None
        if isinstance(last, TranscriptEntry) and last.is_utterance and last.cause is None:
            return last
        return None

    def _moved(self) -> LoggedString:
        """Return a text in place of an answer: somebody else has it now."""
        above = self.state.parent
        who = self.name if above is None else self.session.agents[above].name or above
        return self._piece(f"[moved] {who} answers now")

    def _stopped(self, reason: str) -> LoggedString:
        """Return a text in place of an answer."""
        return self._piece(f"[stopped] {reason}")

    def _piece(self, text: str) -> LoggedString:
        """Log a text that the agent did not say."""
        entries = self.state.transcript or ()
        cause = entries[-1].message_id if entries else self.state.birth
        return LoggedString(text, self.session.log_piece_of_text(self.agent_id, text, cause))


def _too_long(refusal: ModelError, what: str) -> ModelError:
    """Say what came of compacting a conversation that a provider finds too long."""
    return ModelError(f"{refusal} - {what}", why="context_too_long", status=refusal.status)
