"""`SmartAgent`: an agent that is driven by a language model.

The loop: request the model with the context. If it answers with calls, run them, append the results
and request again; otherwise the message is the answer. Everything is logged before it has an
effect, so the loop can be interrupted anywhere and continued later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeAlias

from harken.agents import texts
from harken.agents.action_schemas import is_action
from harken.agents.agent import Agent, check_free, get_agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.call_result import log_result
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.hooks import smart_hook
from harken.agents.hooks.hook_question import format_question
from harken.agents.hooks.pending_answer import (
    MAX_DENIALS,
    given_answer,
    pending_answer,
    was_blocked,
)
from harken.agents.hooks.verdict_call import (
    pending_verdict_call,
    pending_verdict_entry,
    refuse_invalid_verdict_calls,
)
from harken.agents.inputs import hear_news
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.rights import create_subagent, inherited_model, inherited_skills
from harken.agents.runtime import AgentRuntime
from harken.agents.stopped_turn import last_stop, log_moved_stop, log_stop
from harken.agents.template_setup import wait_for_servers
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent, is_idempotent
from harken.agents.turn.act import act
from harken.agents.turn.compaction import CompactionResult, compact, tokens_used
from harken.agents.turn.hook_review import (
    give_answer,
    has_hook_at,
    judge_answer,
    judge_unread,
    send_back,
)
from harken.agents.turn.model_call import ModelCall
from harken.agents.turn.request import request_model
from harken.agents.turn.requested_compaction import compact_if_requested
from harken.agents.turn_end import StoppedByHook, TurnEnded
from harken.core import structs
from harken.core.arguments import check_arguments
from harken.core.event_types.spec import AgentSpec, Budget, HookPoint, Limits
from harken.core.events import Cause, Closed, Place, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.logged_string import LoggedString
from harken.core.verdict import HookQuestion, UnparsableVerdict
from harken.errors import BudgetExceeded, ModelError, StopReason, TurnStopped
from harken.llm.base import Model
from harken.session.session import Session
from harken.session.state import AgentState
from harken.world.result import error_result

Position: TypeAlias = tuple[Place, AgentId | None]
"""The position of an agent in the tree: its place, and the agent above it."""
MIN_COMPACTED_SHARE = 0.2
"""The minimum share of a context that automatic compaction must replace to be worth a model call.
"""
NOTHING_TO_SUMMARIZE = "too little of it could give way to a summary"
COMPACTION_RETRY_SHARE = 0.05
"""After a compaction that did not help, it is tried again when the context grew by this share of
the window."""


@check_arguments
@register_agent_class("smart")
class SmartAgent(ToolAgent):
    """An agent whose language model decides what to say and do."""

    _can_unload: ClassVar[bool] = True

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
        """Create an agent; see `Agent`. `tools` names the tools that it may use, by default all."""
        runtime = runtime or AgentRuntime()
        if model is not None:
            runtime = replace(runtime, model=model)
        super().__init__(session, system_prompt, init_prompt, runtime=runtime)
        self._model_name = runtime.default_model.name if runtime.default_model is not None else None
        self._birth_options = AgentSpec(
            parameters=runtime.parameters_for(self._model_name) or None,
            limits=Limits(tools=None if tools is None else list(tools), budget=budget),
        )

    def _load_state(self, state: AgentState) -> None:
        """Restore nothing: the session's state has everything."""
        self._birth_options, self._model_name = AgentSpec(), None

    def _set_up(self) -> None:
        """Set up what is not in the log because it can be derived."""
        super()._set_up()
        self._model: Model | None = None
        self._asked_point: HookPoint | None = None
        """The point of the question that it is asked now as a hook."""
        self._min_compaction_tokens = 0.0
        """The token count below which compaction is not tried again, because the last one did not
        help."""

    def _spec(self) -> AgentSpec:
        """Return what the birth records: kind, allowed tools, budget, template."""
        return super()._spec().merge(self._birth_options)

    @classmethod
    def _create_for(
        cls,
        parent: Agent,
        system_prompt: str | None,
        tools: Sequence[str] | None,
        template: Template | None = None,
        spec: AgentSpec | None = None,
        *,
        model: str | None = None,
    ) -> Self:
        """Create, without its birth, an agent with the world and the models of its parent."""
        runtime = parent.runtime
        child = cls(parent.session, system_prompt, runtime=runtime, tools=tools)
        template_model = None if template is None else template.model
        name = model or template_model or inherited_model(parent) or child._model_name
        child._model_name = name
        limits = Limits(
            tools=child._birth_options.limits.tools,
            skills=inherited_skills(parent, template),
            permission=None if template is None else template.permission,
        )
        options = AgentSpec(
            parameters=runtime.parameters_for(name) or None,
            template=None if template is None else template.origin,
            limits=limits,
        )
        child._birth_options = options if spec is None else options.merge(spec)
        return child

    def _format_question(self, question: HookQuestion) -> str:
        """Format a question with the background that a model needs."""
        return format_question(self, question)

    async def _judge_question(self, question: HookQuestion) -> None:
        """Parse the answer as a verdict, and log it. If it is none, the hook is asked once more.

        Raises TurnEnded if the hook moved instead of answering, UnparsableVerdict if the second
        answer is no verdict either.
        """
        self._log_question(question)
        answer = await self._answer_as_hook(question)
        try:
            verdict = smart_hook.read_verdict(self, question, answer)
        except UnparsableVerdict:
            if not smart_hook.request_verdict(self, question, answer):
                raise
            answer = await self._answer_as_hook(question)
            verdict = smart_hook.read_verdict(self, question, answer)
        self._log_verdict(question, verdict, answer.message_id)

    async def _answer_as_hook(self, question: HookQuestion) -> LoggedString:
        position, watched = self._position, self.state.parent
        self._asked_point = question.point
        try:
            # its turn may have been stopped just before a crash
            answer = last_stop(self) or await answer_or_stop(self)
        finally:
            self._asked_point = None
        if self._position not in (position, ("gone", watched)):  # it moved
            raise TurnEnded
        return answer

    def _update_duty(self, *, is_hook: bool, points: Sequence[str] | None = None) -> bool:
        """Give its context the duty of a hook, or remove it. Return whether it changed."""
        return smart_hook.update_duty(self, is_hook=is_hook, points=points)

    def _before_verdict(self) -> None:
        """Log the result of the call of `verdict`, and notes."""
        smart_hook.before_verdict(self)

    def _after_verdict(self, question_id: MessageId) -> None:
        """Drop the question from the context, if due."""
        smart_hook.after_verdict(self, question_id)

    def _copy_for(self, agent: Agent) -> Agent | None:
        """Return a copy with the same instructions if this agent was created as a hook.

        A self-made hook has guards because it may act; its copies only judge. See `Agent`.
        """
        instructions = smart_hook.copied_instructions(self)
        if instructions is None:
            return None
        tools = [] if self.state.spec.standing.is_made else self._allowed
        spec = smart_hook.copied_spec(self.state.spec)
        copy = create_subagent(self, instructions, tools, None, spec)
        if isinstance(copy, SmartAgent):
            parameters = spec.parameters  # also if the original has none
            copy._birth_options = structs.replace(copy._birth_options, parameters=parameters)
        return copy

    @property
    def _language_model(self) -> str | None:
        """The name of its model, from the log, or as set by the constructor before the birth."""
        state = self.session.agents.get(self.agent_id)
        return state.language_model if state is not None else self._model_name

    @property
    def model(self) -> Model:
        """The model. Raises ConfigError if no model has its name."""
        name = self._language_model
        if self._model is None or self._model.name != name:
            self._model = self.runtime.get_model(name)
        return self._model

    async def response(self, input: str | None = None) -> LoggedString:
        """Answer the latest input. If `input` is given, append it first.

        Goes on where a crash, a failed model call or a cancellation cut the last turn off.
        Returns the final text with its id; if another agent has taken its place, a text that says
        so. Raises TurnStopped if a budget or hooks ended the turn without an answer; ModelError,
        LogWriteError: the session can be resumed after either; AgentBusy if it is answering
        already.
        """
        with self._busy():
            try:
                if input is not None:
                    await self._give_up_calls()
                    hear_news(self)
                    self._receive(input)
                    input = None
                answer = await self._turn()
            except BudgetExceeded as error:
                answer = self._stop("budget", str(error))
            except StoppedByHook as error:
                answer = self._stop("hook", str(error), error.verdict)
            except TurnEnded:
                answer = self._yield_turn(input)
        self.session.sync()
        if answer.stop_reason is not None and answer.stop_reason != "moved":
            raise TurnStopped(str(answer), answer.stop_reason, answer.message_id)
        return answer

    def _yield_turn(self, unheard: str | None = None) -> LoggedString:
        """End a turn in which a move changed this agent's place. Return a text that says so.

        unheard: an input that was not received; the agent above gets it. An agent that took the
        place of another one goes on there: its turn is not stopped.
        """
        above = self.state.parent
        with self.session.group():
            self._close_undone_calls(texts.TAKEN_OVER, "moved")
            if unheard is not None and above is not None:
                get_agent(self, above).harken(unheard)
            stopped = last_stop(self)
            is_replaced = self.state.replaced_by is not None or self.state.place == "gone"
            if stopped is None and is_replaced:
                stopped = log_moved_stop(self)
        entry_id = (self.state.transcript or [])[-1].message_id
        return stopped or LoggedString(texts.TURN_MOVED.format(self.name), entry_id, "moved")

    def _has_unjudged_answer(self) -> bool:
        """Whether its last answer waits for the verdicts of hooks."""
        return pending_answer(self) is not None or was_blocked(self)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Mark the agent as being in a turn."""
        check_free(self)
        self._turn_lock.enter()
        try:
            yield
        finally:
            self._turn_lock.leave()

    async def _turn(self) -> LoggedString:
        """Request the model and run its calls until there is an answer.

        A resumed turn begins where it was: with open calls, unjudged messages or an unjudged
        answer.
        """
        position = self._position
        if self.state.open_calls:
            await self._act(position)
        entry = pending_verdict_entry(self) or pending_answer(self) or given_answer(self)
        if entry is None:
            hear_news(self)
            await judge_unread(self)
            entry = self._last_utterance()
        for denied in range(self.state.denials, MAX_DENIALS):
            while entry is None or (entry.tool_calls and pending_verdict_call(self) is None):
                entry = await self._step(position)
            judgement = await judge_answer(self, entry)
            if judgement.denial is None:
                return give_answer(self, entry, judgement)
            send_back(self, judgement.denial, denied)
            entry = None
        return self._stop("denials", texts.TOO_MANY_DENIALS.format(MAX_DENIALS))

    @property
    def _position(self) -> Position:
        """Return the agent's position in the tree. A change of it during a turn ends the turn."""
        return self.state.place, self.state.parent

    async def _step(self, position: Position) -> TranscriptEntry:
        """Request the model once and run its calls. Return the model's message."""
        if hear_news(self):
            await judge_unread(self)
        await compact_if_requested(self, self.model)
        await self._make_room()
        call = await self._ask()
        checkpoint_if_due(self, "turn_boundary")
        if call.answer.tool_calls:
            await self._act(position)
        return call.answer

    async def _ask(self) -> ModelCall:
        """Request the model. Compact and retry once if the context is too long."""
        try:
            return await self._ask_once()
        except ModelError as error:
            if error.kind != "context_too_long" or self.runtime.limits.compact_at is None:
                raise
            await self._shrink(error)
        try:
            return await self._ask_once()
        except ModelError as error:
            if error.kind == "context_too_long":
                outcome = "it was compacted and is still too long"
                raise _context_too_long_error(error, outcome) from error
            raise

    async def _ask_once(self) -> ModelCall:
        """Call the model once, with everything about the call in the log."""
        await wait_for_servers(self)
        held_back = has_hook_at(self, "response")
        on_chunk = None if held_back else self.runtime.observers.on_chunk
        return await request_model(self, self.model, self._get_toolset(), on_chunk)

    async def _shrink(self, refusal: ModelError) -> None:
        """Compact a context that a provider rejected. Raises ModelError if that is impossible."""
        try:
            result = await compact(
                self, self.model, pending=True, least=MIN_COMPACTED_SHARE, fits=False
            )
        except ModelError as error:
            raise _context_too_long_error(
                refusal, f"it could not be compacted ({error})"
            ) from error
        if result is None:
            raise _context_too_long_error(refusal, NOTHING_TO_SUMMARIZE)

    def _is_full(self) -> bool:
        """Whether the context must be compacted before the next model request."""
        share, window = self.runtime.limits.compact_at, self.window
        if share is None or window is None:
            return False
        return tokens_used(self) >= max(share * window, self._min_compaction_tokens)

    async def _make_room(self) -> None:
        """Compact a nearly full context. If that does not help, notify the user and continue."""
        if not self._is_full():
            return
        why = NOTHING_TO_SUMMARIZE
        try:
            if await compact(self, self.model, pending=True, least=MIN_COMPACTED_SHARE) is not None:
                why = "what is left is too long"
        except ModelError as error:
            why = str(error)
        share, window, tokens = self.runtime.limits.compact_at, self.window, tokens_used(self)
        if share is not None and window is not None and tokens >= share * window:
            self._min_compaction_tokens = tokens + COMPACTION_RETRY_SHARE * window
            full = f"takes {tokens / window:.0%} of what its model reads"
            self.runtime.notify(
                f"{self.name}: the context {full}, and could not be compacted: {why}"
            )

    async def compact(self, instructions: str = "") -> CompactionResult | None:
        """Replace the context with a summary. Return None if there is too little to summarize.

        `instructions` say what the summary must keep. The log and the commits keep everything.
        Raises ModelError and BudgetExceeded with the context unchanged, and AgentBusy in the middle
        of a turn. Entries that hooks have yet to judge are judged first.
        """
        with self._busy():
            await self._finish_interrupted(self._give_up_calls())
            if has_open_calls(self) and pending_answer(self) is not None:
                raise ModelError(
                    f"the last answer of {self.name} waits for its hooks: resume first"
                )
            result = await compact(
                self, self.model, pending=has_open_calls(self), instructions=instructions
            )
        self.session.sync()
        return result

    @property
    def window(self) -> int | None:
        """The context window of its model in tokens, or None if unknown."""
        model = self.model
        model_window: int | None = getattr(model, "context_window", None)
        return model_window or self.runtime.limits.windows.tokens(model.name)

    async def _act(self, position: Position) -> None:
        """Run the open calls, then let hooks comment on the results.

        Raises TurnEnded if a call moved this agent.
        """
        refuse_invalid_verdict_calls(self, self._asked_point)
        verdict_call = pending_verdict_call(self)
        await act(self, [call for call in self.state.open_calls.values() if call != verdict_call])
        if self._position == position and verdict_call is None:
            await judge_unread(self)
        checkpoint_if_due(self, "tool_call")
        if self._position != position:
            raise TurnEnded

    async def _finish_open_calls(self) -> None:
        """Give interrupted calls a result: calls of idempotent tools are run again.

        Raises AgentBusy in the middle of a turn, where calls are under way.
        """
        with self._busy():
            await self._finish_interrupted(self._give_up_calls())

    async def _finish_interrupted(self, finishing: Awaitable[None]) -> None:
        """Complete interrupted work. If a hook ends it, give open calls a result that says so."""
        try:
            await finishing
        except TurnEnded:
            self._yield_turn()
        except StoppedByHook:
            self._close_undone_calls(texts.STOPPED, "stopped")

    async def _give_up_calls(self) -> None:
        """Close the open calls of a turn that is given up, and let hooks judge the results.

        Calls of idempotent tools are run again in place of closing them.
        """
        for call in list(self.state.open_calls.values()):
            if is_idempotent(self, call) and not is_action(self.tools.get(call.name)):
                await act(self, [call])
            else:
                self._close_call(call)
        await judge_unread(self)

    def _close_undone_calls(self, why: str, closed: Closed) -> None:
        """Give the open calls of an ended turn a result with the reason."""
        for call in list(self.state.open_calls.values()):
            log_result(self, call, error_result(why.format(call.name), closed=closed))

    def _last_utterance(self) -> TranscriptEntry | None:
        """Return the answer at the end of the context, or None if there was input after it."""
        context = self.session.context(self.agent_id)
        last = context[-1] if context else None
        if isinstance(last, TranscriptEntry) and last.is_utterance and last.cause is None:
            return last
        return None

    def _stop(self, reason: StopReason, explanation: str, cause: Cause = None) -> LoggedString:
        """Log that the turn has no answer. Return the text in place of it."""
        with self.session.group():
            if reason == "hook":
                self._close_undone_calls(texts.STOPPED, "stopped")
            return log_stop(self, reason, texts.TURN_STOPPED.format(explanation), cause)


def _context_too_long_error(refusal: ModelError, outcome: str) -> ModelError:
    """Return the error for a context that stays too long after compaction, with the outcome."""
    return ModelError(f"{refusal} - {outcome}", why="context_too_long", status=refusal.status)
