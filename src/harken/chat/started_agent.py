"""Run a started agent as a session: from a commit, with a prompt, until it has answered.

The session is named after the start, so a killed process is continued from the log. The prompt is
committed before the model reads it: each message of a discussion has its commit.
"""

from __future__ import annotations

import asyncio
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harken.agents.agent import Agent
from harken.agents.checkpoints import checkpoint_agent
from harken.agents.open_calls import has_open_calls
from harken.agents.templates.template import Template
from harken.chat.open import open_chat
from harken.chat.open_chat import OpenChat
from harken.chat.options import ChatOptions
from harken.chat.plain_chat import tell
from harken.chat.turn_limit import TurnLimit
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.context.checkpoint import CommitIdentity
from harken.core.events import LlmRequest, TranscriptEntry
from harken.core.messages import text_of
from harken.errors import ConfigError
from harken.review.run import main_principal
from harken.review.task import AgentOutcome, AgentTask
from harken.session.log.compressed import is_packed
from harken.session.log.file import LogFile, is_being_written
from harken.session.log.reader import is_unstarted, iter_events

_COMMIT_PATTERN = re.compile(r"ctx-[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StartedAgents:
    """Runs the tasks of started agents in a home. An `AgentRunner`."""

    home: Home
    options: ChatOptions
    """The options of all their sessions, such as the model and the permissions."""

    def has_session(self, name: str) -> bool:
        """Whether the home has the log of a session."""
        return self._log(name).exists() or is_packed(self._log(name))

    def is_running(self, name: str) -> bool:
        """Whether a process of this home runs a session now."""
        log = self._log(name)
        return log.exists() and is_being_written(log)

    def check_template(self, name: str) -> None:
        """Raise NameNotFound or ConfigError if a template cannot be used here."""
        load_settings(self.home).templates.find(name)

    def run(self, task: AgentTask) -> AgentOutcome:
        """Run a task, or continue its session, until the agent has answered."""
        self.home.create_folders()
        log = self._log(task.session)
        is_begun = self.has_session(task.session) and not _remove_unstarted(log)
        chat = open_chat(self.home, self._chat_options(task, log, is_begun), on_notice=tell)
        with chat, asyncio.Runner() as runner:
            outcome = _answer(chat, runner, "" if is_begun else task.prompt, self.options.max_calls)
            runner.run(chat.runtime.world.close())
            chat.end()
            return replace(outcome, context_id=chat.agent.state.commit_id or "")

    def _log(self, session: str) -> Path:
        return self.home.sessions_folder / f"{session}.jsonl"

    def _chat_options(self, task: AgentTask, log: Path, is_begun: bool) -> ChatOptions:
        identity = CommitIdentity(
            principal=main_principal(task.principal),
            machine=platform.node(),
            ticket_id=task.ticket,
            thread_id=task.thread_id,
        )
        options = replace(
            self.options, log=log, identity=identity, store_tools=task.tools, old=None, wakes=False
        )
        if is_begun:
            return replace(options, old=log)
        if task.context_id and not _COMMIT_PATTERN.fullmatch(task.context_id):
            raise ConfigError(f"{task.context_id[:80]!r} is not the full name of a commit: ctx-...")
        template = load_settings(self.home).templates.find(task.template)
        return replace(
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
    return replace(template, tools=(*template.tools, *names))


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


def _answer(chat: OpenChat, runner: asyncio.Runner, prompt: str, max_calls: int) -> AgentOutcome:
    """Send the prompt to a new agent, or continue, and return the answer."""
    agent = chat.agent
    if prompt:
        agent.harken(prompt)
    elif not has_open_calls(agent):
        return AgentOutcome(_last_answer(agent), "")
    checkpoint_agent(agent)
    limit = TurnLimit(max_calls)
    chat.session.add_listener(limit.on_event)
    answer = runner.run(limit.run(chat.conversation.say()))
    return AgentOutcome(str(answer), "", answer.is_answer)


def _last_answer(agent: Agent) -> str:
    """Return the last text of an agent that has answered."""
    for message in reversed(agent.session.context(agent.agent_id)):
        if message.role == "assistant":
            return text_of(message.content)
    return ""
