"""`InteractionLogging`: an observer that has a logger hear of every model call of agents.

    runtime = Runtime(model=model, observers=[InteractionLogging(logger)])

One idea: what Harken's agents do is in a log already. Where that log is one of the logger's
folder, there is nothing to write; else the calls become threads there, under the same names.
"""

from __future__ import annotations

from pathlib import Path

from harken.core.ids import AgentId, MessageId
from harken.interactions.call import LoggedCall
from harken.interactions.logger import InteractionLogger
from harken.llm.observer import ObservedAnswer, ObservedCall


class InteractionLogging:
    """A `ModelObserver` over a logger."""

    def __init__(self, logger: InteractionLogger) -> None:
        """Observe for a logger. It is closed by whoever made it."""
        self.logger = logger
        self.threads: dict[tuple[Path, AgentId], str] = {}
        """The threads that were seen, by the log and the agent."""
        self._calls: dict[tuple[Path, MessageId | None], LoggedCall] = {}

    def on_context_assembled(self, call: ObservedCall) -> None:
        """Begin a thread where the agent has none."""
        key = call.session.path, call.agent_id
        if key in self.threads:
            return
        thread = f"{call.session.path.stem}/{call.agent_id}"
        if not self._is_there(call):
            thread = self.logger.start_thread(
                call.session.path.stem,
                name=call.session.agents[call.agent_id].name,
                agent_id=call.agent_id,
            )
        self.threads[key] = thread

    def on_llm_request(self, call: ObservedCall) -> None:
        """Log the request, where nobody else does."""
        if self._is_there(call):
            return
        begun = self.logger.call(
            self.threads[call.session.path, call.agent_id],
            call.request.messages,
            model=call.model,
            tools=call.request.tools,
            parameters=call.request.parameters,
        )
        begun.__enter__()
        self._calls[call.session.path, call.request_id] = begun

    def on_llm_response(self, answer: ObservedAnswer) -> None:
        """Log the answer, or why there is none."""
        call = answer.call
        begun = self._calls.pop((call.session.path, call.request_id), None)
        if begun is None:
            return
        response = answer.response
        if answer.answer is not None:
            begun.answer(
                answer.answer,
                model=response.model,
                usage=response.usage,
                stop_reason=response.stop_reason or "",
                cost_usd=response.cost_usd,
            )
        else:
            begun.fail(response.error or "", stop_reason=response.stop_reason or "")
        begun.__exit__(None, None, None)

    def _is_there(self, call: ObservedCall) -> bool:
        """Whether the session is one of the logger's folder."""
        return call.session.path.parent.resolve() == self.logger.sessions_folder.resolve()
