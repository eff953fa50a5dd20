"""`SmartAgent`: a model decides.

The loop: ask the model with the context; if it acts, run its calls, let it see the results, and
ask again; if it does not, what it said is the answer. Everything is in the log before it has an
effect, so the loop can be cut anywhere and entered again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from harken.agents.act import act, log_result
from harken.agents.actor import Actor, Toolbox
from harken.agents.base import register
from harken.agents.budget import Budget, check_spending
from harken.agents.hook import (
    Deny,
    Hook,
    Judgement,
    Opinion,
    Point,
    Question,
    comment_entry,
    consult,
)
from harken.agents.interrupted import abandon, note_on
from harken.agents.model_call import HALF_A_CALL, ModelCall
from harken.agents.runtime import Runtime
from harken.agents.templates import Template
from harken.core.events import LlmRequest, ToolsDefined, TranscriptEntry
from harken.core.ids import USER, MessageId
from harken.core.messages import ChatMessage, extend_context_hash, text_of
from harken.core.text import LoggedString
from harken.errors import AgentBusy, BudgetExceeded, ConfigError
from harken.llm.base import Model, Request, Window
from harken.session.session import Session
from harken.session.state import AgentState, OpenCall
from harken.world.result import Result

MAX_DENIALS = 3
"""After so many denials of one response the user is told instead."""


@register("smart")
class SmartAgent(Actor):
    """An agent whose language model decides what to say and do."""

    def __init__(
        self,
        session: Session,
        system_prompt: str | None = None,
        init_prompt: Sequence[Mapping[str, Any]] | None = None,
        *,
        runtime: Runtime | None = None,
        model: Model | None = None,
        tools: Sequence[str] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Make an agent; see `Agent`. `tools` names what it may use (None: all there is)."""
        runtime = runtime or Runtime()
        if model is not None:
            runtime = replace(runtime, model=model)
        super().__init__(session, system_prompt, init_prompt, runtime=runtime)
        self._model_name = runtime.model.name if runtime.model is not None else None
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
        self._answering = False

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
    ) -> SmartAgent:
        """Make, without its birth, a subagent that shares this agent's world and models."""
        child = SmartAgent(self.session, system_prompt, runtime=self.runtime, tools=tools)
        child._model_name = (template and template.model) or self.language_model
        child._given["parameters"] = self.runtime.parameters_for(child._model_name) or None
        child._given["template"] = None if template is None else template.origin
        return child

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
            self._model = self.runtime.model_named(name)
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
                    super().harken(input)
                said = await self._turn()
            except BudgetExceeded as error:
                said = self._stopped(str(error))
        self.session.settle()
        return said

    def harken(self, input: str) -> None:
        """Add a user message to the transcript and log it; see `Agent`.

        Raises AgentBusy in the middle of a turn: between a call and its result, or a request
        and its answer, a message would be out of place.
        """
        self.check_free()
        super().harken(input)

    def check_free(self) -> None:
        """Raise AgentBusy where it is in the middle of a turn and can hear nothing now."""
        if self._answering:
            raise AgentBusy(self.name)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Be in the middle of a turn."""
        self.check_free()
        self._answering = True
        try:
            yield
        except BaseException:
            self.forget_comments()
            raise
        finally:
            self._answering = False

    async def _turn(self) -> LoggedString:
        """Ask and act until there is an answer."""
        await self._finish_calls()
        await self._comment_on("input", self._new_inputs())
        entry = self._last_utterance()
        for denials in range(MAX_DENIALS):
            while entry is None or entry.tool_calls:
                entry = await self._step()
            judgement = await self._judge(entry)
            if judgement.denied is None:
                return self._shown(entry, judgement)
            self._send_back(judgement.denied, denials)
            entry = None
        return self._stopped(f"hooks blocked the answer {MAX_DENIALS} times")

    async def _step(self) -> TranscriptEntry:
        """Ask the model once and run its calls; return what it said."""
        asked = await self._ask()
        self.keep("turn_boundary")
        calls = list(self.state.open_calls.values())
        half = calls.pop() if calls and asked.ends_in_half_a_call else None
        if calls:
            await self._act(calls)
        if half is not None:
            log_result(self, half, Result(HALF_A_CALL, is_error=True))
        if asked.answer.tool_calls:
            self.keep("tool_call")
        return asked.answer

    async def _ask(self) -> ModelCall:
        """Call the model once, with everything about the call in the log."""
        check_spending(self.session.state, self.agent_id)
        model, tools = self.model, self.toolbox()
        request = self._request(tools)
        if not request.messages:
            raise ConfigError(f"{self.name} has heard nothing yet: tell it something first")
        request_id = self.session.append(
            LlmRequest(
                agent_id=self.agent_id,
                context=self.state.segments(),
                count=len(request.messages),
                context_hash=request.context_hash,
                model=model.name,
                parameters=dict(request.parameters) or None,
                tools=self._tools_id(tools),
            )
        )
        call = ModelCall(self.session, self.agent_id, request_id)
        held_back = self._asked_at("response")
        await call.run(model, request, None if held_back else self.runtime.on_chunk)
        return call

    def _request(self, tools: Toolbox) -> Request:
        context = self.session.context(self.agent_id)
        state = self.state
        done, context_hash = state.hashed
        for at in range(done, len(context)):
            context_hash = extend_context_hash(context_hash, context[at])
        return Request(
            agent=self.name,
            messages=Window(context, len(context)),
            tools=tools.schemas,
            parameters=state.spec.get("parameters") or {},
            context_hash=context_hash,
            tools_hash=tools.hash,
        )

    def _tools_id(self, tools: Toolbox) -> MessageId | None:
        """Return the event that holds these schemas, written where no earlier one does."""
        if tools.hash is None:
            return None
        known = self.session.state.tools.get(tools.hash)
        defined = ToolsDefined(
            tools=[dict(schema) for schema in tools.schemas], tools_hash=tools.hash
        )
        return known or self.session.append(defined)

    async def _act(self, calls: Sequence[OpenCall]) -> None:
        """Run calls; then let hooks comment on the results."""
        before = len(self.session.context(self.agent_id))
        await act(self, calls)
        self.deliver()
        results = [m for m in self.session.context(self.agent_id)[before:] if m.role == "tool"]
        await self._comment_on("result", results)

    async def finish_calls(self) -> None:
        """Give calls that were cut off a result: idempotent tools are simply run again.

        Raises AgentBusy in the middle of a turn, where calls are under way.
        """
        with self._busy():
            await self._finish_calls()

    async def _finish_calls(self) -> None:
        for call in list(self.state.open_calls.values()):
            if self.runs_again(call):
                await self._act([call])
            else:
                self.close_call(call)
        self.deliver()

    def close_call(self, call: OpenCall) -> MessageId:
        """Give a call without a result one that says how far it had come."""
        abandon(self, call)
        return super().close_call(call)

    def note_on(self, call: OpenCall) -> str:
        """Return what more is known of a call that was cut off."""
        return note_on(self, call)

    def _new_inputs(self) -> list[ChatMessage]:
        """Return what was heard since the last model call, hooks' own comments aside."""
        context = self.session.context(self.agent_id)
        fresh = context[len(context) - len(self.state.fresh) :]
        return [message for message in fresh if message.role == "user" and not _cause(message)]

    def _last_utterance(self) -> TranscriptEntry | None:
        """Return the answer that stands at the end of the context: nothing was heard since."""
        context = self.session.context(self.agent_id)
        last = context[-1] if context else None
        if isinstance(last, TranscriptEntry) and last.is_utterance and last.cause is None:
            return last
        return None

    def _asked_at(self, point: Point) -> bool:
        return any(isinstance(hook, Hook) and point in hook.points for hook in self.hooks)

    async def _comment_on(self, point: Point, messages: Sequence[ChatMessage]) -> None:
        """Let hooks comment on what was heard or came back."""
        if not messages or not self._asked_at(point):
            return
        for message in messages:
            if isinstance(message, TranscriptEntry):
                text, id_ = text_of(message.content), message.message_id
                hooks = [h for h in self.hooks if not (isinstance(h, Hook) and h.has_judged(id_))]
                question = Question(point, self.name, id_, text)
                self.note_comments(await consult(hooks, question))
        self.deliver()

    async def _judge(self, entry: TranscriptEntry) -> Judgement:
        """Let hooks judge an answer before anyone hears it."""
        question = Question("response", self.name, entry.message_id, text_of(entry.content))
        judgement = await consult(self.hooks, question)
        self.note_comments(judgement)
        self.deliver()
        return judgement

    def _send_back(self, denied: Opinion, denials: int) -> None:
        reason = denied.verdict.reason if isinstance(denied.verdict, Deny) else ""
        text = f"Your response was blocked ({denials + 1} of {MAX_DENIALS}): {reason}"
        self.session.append(comment_entry(self, denied, text))

    def _shown(self, entry: TranscriptEntry, judgement: Judgement) -> LoggedString:
        """Return what others hear; where that is not what the agent said, log what a user saw."""
        if judgement.rewritten is None:
            return LoggedString(text_of(entry.content), entry.message_id)
        shown = LoggedString(judgement.rewritten, entry.message_id)
        if self.state.place == "primary":
            event = TranscriptEntry(
                agent_id=USER, role="user", content=str(shown), substance=entry.message_id
            )
            self.session.append(event)
        return shown

    def _stopped(self, reason: str) -> LoggedString:
        """Return a text in place of an answer; the agent did not say it, so it is a piece."""
        entries = self.state.transcript or ()
        cause = entries[-1].message_id if entries else self.state.birth
        text = f"[stopped] {reason}"
        return LoggedString(text, self.session.log_piece_of_text(self.agent_id, text, cause))


def _cause(message: ChatMessage) -> Any:
    return getattr(message, "cause", None)
