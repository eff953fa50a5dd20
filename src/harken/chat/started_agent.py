"""Run a started agent as a session: from a commit, with a prompt, until it has answered.

The session is named after the start, so a killed process is continued from the log. The prompt is
committed before the model reads it: each message of a discussion has its commit.
"""

from __future__ import annotations

import asyncio
import platform
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harken.agents.agent import Agent
from harken.agents.checkpoints import checkpoint_agent
from harken.agents.open_calls import has_open_calls
from harken.agents.templates.template import Template
from harken.agents.turn.model_call import TRUNCATED_STOP_REASONS
from harken.chat.models import (
    build_model_resolver,
    choose_default_model,
    load_named_model,
)
from harken.chat.open import open_chat
from harken.chat.open_chat import OpenChat
from harken.chat.options import ChatOptions
from harken.chat.plain_chat import tell
from harken.chat.turn_limit import TurnLimit
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.context.checkpoint import CommitIdentity
from harken.core import structs
from harken.core.events import Event, LlmRequest, LlmResponse, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.errors import ConfigError
from harken.review.task import AgentOutcome, AgentTask
from harken.session.log.compressed import is_packed
from harken.session.log.file import LogFile, is_being_written
from harken.session.log.reader import is_unstarted, iter_events
from harken.tickets.starts import main_principal

_COMMIT_PATTERN = re.compile(r"ctx-[0-9a-f]{64}")


class StartedAgents(msgspec.Struct, frozen=True):
    """Runs the tasks of started agents in a home. An `AgentRunner`."""

    home: Home
    options: ChatOptions
    """The options of all their sessions, such as the model and the permissions."""

    def is_running(self, name: str) -> bool:
        """Whether a process of this home runs a session now."""
        log = self._log(name)
        return log.exists() and is_being_written(log)

    def check_template(self, name: str, *, session: str = "") -> None:
        """Raise NameNotFound or ConfigError if a template or its model cannot be used here."""
        if session and self._has_session(session):
            return
        template = load_settings(self.home).templates.find(name)
        settings = load_settings(self.home, model=self.options.model or template.model)
        model = settings.model or choose_default_model(settings)
        load_named_model(build_model_resolver(self.home, settings), model)

    def run(self, task: AgentTask) -> AgentOutcome:
        """Run a task, or continue its session, until the agent has answered."""
        self.home.create_folders()
        log = self._log(task.session)
        is_begun = self._has_session(task.session) and not _remove_unstarted(log)
        chat = open_chat(self.home, self._chat_options(task, log, is_begun), on_notice=tell)
        with chat, asyncio.Runner() as runner:
            task.on_locked()
            calls = _SessionCalls()
            for event in iter_events(log) if is_begun else ():
                calls.on_event(event)
            chat.session.add_listener(calls.on_event)
            limit = TurnLimit(self.options.max_calls, earlier=calls.counts.copy())
            outcome = _answer(chat, runner, "" if is_begun else task.prompt, limit)
            runner.run(chat.runtime.world.close())
            chat.end()
            outcome = structs.replace(outcome, context_id=chat.agent.state.commit_id or "")
            if outcome.is_answer and calls.is_cut_off(chat.agent.agent_id):
                text = f"its answer was cut off at the limit of its length: {outcome.answer}"
                return structs.replace(outcome, answer=text, is_answer=False)
            return outcome

    def _has_session(self, name: str) -> bool:
        """Whether the home has the log of a session."""
        return self._log(name).exists() or is_packed(self._log(name))

    def _log(self, session: str) -> Path:
        return self.home.sessions_folder / f"{session}.jsonl"

    def _chat_options(self, task: AgentTask, log: Path, is_begun: bool) -> ChatOptions:
        identity = CommitIdentity(
            principal=main_principal(task.principal),
            machine=platform.node(),
            ticket_id=task.ticket,
            thread_id=task.thread_id,
        )
        options = structs.replace(
            self.options, log=log, identity=identity, store_tools=task.tools, old=None, wakes=False
        )
        if is_begun:
            return structs.replace(options, old=log)
        if task.context_id and not _COMMIT_PATTERN.fullmatch(task.context_id):
            raise ConfigError(f"{task.context_id[:80]!r} is not the full name of a commit: ctx-...")
        template = load_settings(self.home).templates.find(task.template)
        return structs.replace(
            options,
            model=options.model or template.model,
            template=_with_tools(template, task.tool_names),
            ctx=task.context_id or None,
            system_prompt=None if task.context_id else template.instructions,
        )


def _with_tools(template: Template, names: Sequence[str]) -> Template:
    """Return a template that allows these tools as well."""
    if template.tools is None:
        return template
    return structs.replace(template, tools=(*template.tools, *names))


def _remove_unstarted(log: Path) -> bool:
    """Remove the log of a session that has no message yet; return whether it was removed.

    Its process was killed at the birth of the agent. Raises LogLocked if the process still runs.
    """
    if not log.exists():
        return False  # It is compressed: a session that has ended.
    lock = LogFile(log)
    try:
        if not is_unstarted(log) and any(map(_is_message, iter_events(log))):
            return False
        log.unlink()
        return True
    finally:
        lock.close()


def _is_message(event: object) -> bool:
    is_input = isinstance(event, TranscriptEntry) and event.role != "system"
    return is_input or isinstance(event, LlmRequest)


class _SessionCalls:
    """The model calls of each agent of a session, also those of earlier processes."""

    def __init__(self) -> None:
        self.counts: Counter[AgentId] = Counter()
        self._stop_reasons: dict[AgentId, str | None] = {}

    def on_event(self, event: Event) -> None:
        """Count a model call. A listener of the session."""
        if isinstance(event, LlmResponse) and event.agent_id is not None:
            self.counts[event.agent_id] += 1
            self._stop_reasons[event.agent_id] = event.stop_reason

    def is_cut_off(self, agent: AgentId) -> bool:
        """Whether the last answer of an agent reached the limit of its length."""
        return self._stop_reasons.get(agent) in TRUNCATED_STOP_REASONS


def _answer(chat: OpenChat, runner: asyncio.Runner, prompt: str, limit: TurnLimit) -> AgentOutcome:
    """Send the prompt to a new agent, or continue, and return the answer."""
    agent = chat.agent
    if prompt:
        agent.harken(prompt)
    elif not has_open_calls(agent):
        stop = agent.state.stop
        return AgentOutcome(_last_answer(agent), "", is_answer=stop is None)
    limit.check_earlier()
    checkpoint_agent(agent)
    chat.session.add_listener(limit.on_event)
    answer = runner.run(limit.run(chat.conversation.say()))
    return AgentOutcome(str(answer), "", answer.is_answer)


def _last_answer(agent: Agent) -> str:
    """Return the last text of an agent that has answered."""
    for message in reversed(agent.session.context(agent.agent_id)):
        if message.role == "assistant":
            return text_of(message.content)
    return ""
