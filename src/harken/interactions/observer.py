"""`InteractionLogging`: an observer that logs the model calls of Harken's agents with a logger.

    runtime = AgentRuntime(
        model=model, observers=Observers(on_model_call=[InteractionLogging(logger)])
    )

Harken's agents already write a session log. If that log is in the logger's folder, nothing is
written. Otherwise the calls become threads in that folder, with the same names.
"""

from __future__ import annotations

from pathlib import Path

from harken.core.ids import AgentId, MessageId
from harken.interactions.call import LoggedCall
from harken.interactions.logger import InteractionLogger
from harken.llm.observer import ObservedAnswer, ObservedCall


class InteractionLogging:
    """A `ModelObserver` that writes to an `InteractionLogger`."""

    def __init__(self, logger: InteractionLogger) -> None:
        """Observe for a logger. The caller closes the logger."""
        self.logger = logger
        self.threads: dict[tuple[Path, AgentId], str] = {}
        """Log path and agent -> thread id."""
        self._calls: dict[tuple[Path, MessageId | None], LoggedCall] = {}

    def on_context_assembled(self, call: ObservedCall) -> None:
        """Start a thread if the agent has none."""
        key = call.session.path, call.agent_id
        if key in self.threads:
            return
        thread = f"{call.session.path.stem}/{call.agent_id}"
        if not self._is_in_folder(call):
            thread = self.logger.start_thread(
                call.session.path.stem,
                name=call.session.agents[call.agent_id].name,
                agent_id=call.agent_id,
            )
        self.threads[key] = thread

    def on_llm_request(self, call: ObservedCall) -> None:
        """Log the request, unless the session log is in the logger's folder."""
        if self._is_in_folder(call):
            return
        logged_call = self.logger.call(
            self.threads[call.session.path, call.agent_id],
            call.request.messages,
            model=call.model,
            tools=call.request.tools,
            parameters=call.request.parameters,
        )
        logged_call.__enter__()
        self._calls[call.session.path, call.request_id] = logged_call

    def on_llm_response(self, answer: ObservedAnswer) -> None:
        """Log the response or its error."""
        call = answer.call
        logged_call = self._calls.pop((call.session.path, call.request_id), None)
        if logged_call is None:
            return
        response = answer.response
        if answer.answer is not None:
            logged_call.answer(
                answer.answer,
                model=response.model,
                usage=response.usage,
                stop_reason=response.stop_reason or "",
                cost_usd=response.cost_usd,
            )
        else:
            logged_call.fail(response.error or "", stop_reason=response.stop_reason or "")
        logged_call.__exit__(None, None, None)

    def _is_in_folder(self, call: ObservedCall) -> bool:
        """Whether the session log is in the logger's folder."""
        return call.session.path.parent.resolve() == self.logger.sessions_folder.resolve()
