"""The chat in plain lines: for pipes, scripts and terminals without cursor control.

Only answers go to standard output; everything else goes to standard error. Questions to the user
are lines, and so are the replies.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeAlias

import click

from harken.agents.agent import Agent
from harken.agents.open_calls import has_open_calls
from harken.agents.smart_agent import SmartAgent
from harken.chat.commands.base import SHELL, Command, Doing, NextSession, is_command, run_command
from harken.chat.commands.mcp import prompt_commands
from harken.chat.commands.prompts import prompt_file_commands
from harken.chat.commands.tree import owes_answer_since
from harken.chat.commands.views import format_compaction
from harken.chat.models import list_models
from harken.chat.open_chat import OpenChat
from harken.chat.turn_limit import MAX_MODEL_CALLS, TurnLimit
from harken.chat.usage import UsageTotal
from harken.core.events import Event, HookVerdict, TranscriptEdited
from harken.core.ids import AgentId
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.errors import ConfigError, ModelError
from harken.terminal.stdin import StdinReader, stdin_is_interactive
from harken.terminal.text import escape_control_characters, one_line, print_json
from harken.terminal.text import print_text as say
from harken.views.message_text import format_count
from harken.views.verdicts import verdict_kind
from harken.world.result import ToolError
from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion, UserUnavailable

Read = Callable[[str], str | None]
"""Prints a prompt and returns a line. Returns None at the end of the input."""
CHOICES = "yes, no, or a reason or instruction"


class PlainUser:
    """A user that answers with lines of input. The chat is blocked meanwhile."""

    def __init__(
        self,
        read: Read,
        tell: Callable[[str], None],
        keep_type_ahead: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `keep_type_ahead` before a question is shown: type-ahead is not a reply to it."""
        self._read, self._tell = read, tell
        self._keep_type_ahead = keep_type_ahead
        self._prompt_lock = asyncio.Lock()

    async def ask(self, question: UserQuestion) -> str:
        """Return the answer to a question. Raises UserUnavailable at the end of the input."""
        async with self._prompt_lock:
            self._keep_type_ahead()
            self._tell(f"{question.agent} asks: {question.question}")
            for number, option in enumerate(question.options, 1):
                self._tell(f"  {number} {option}")
            answer = self._line("answer> ")
        is_number = (
            answer.isascii() and answer.isdigit() and 0 < int(answer) <= len(question.options)
        )
        return question.options[int(answer) - 1] if is_number else answer

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
        """Return the user's decision. Raises UserUnavailable at the end of the input."""
        async with self._prompt_lock:
            self._keep_type_ahead()
            self._tell(f"{request.agent} requests {request.tool}:\n{request.preview}")
            if request.note:
                self._tell(request.note)
            for number, rule in enumerate(request.rules, 1):
                self._tell(f"  {number} always, for {rule}")
            return _parse_decision(self._line(f"{CHOICES}> "), request)

    def _line(self, prompt: str) -> str:
        while (line := self._read(prompt)) is not None:
            if line.strip():
                return line.strip()
        raise UserUnavailable("end of input")


def _parse_decision(reply: str, request: ApprovalRequest) -> ApprovalDecision:
    """Parse a reply. A text that is neither a yes nor a rule is a denial with that reason."""
    if reply.lower() in ("y", "yes"):
        return ApprovalDecision(allowed=True)
    if reply.lower() in ("n", "no"):
        return ApprovalDecision(allowed=False)
    if reply.isascii() and reply.isdigit() and 0 < int(reply) <= len(request.rules):
        return ApprovalDecision(allowed=True, rule=request.rules[int(reply) - 1])
    return ApprovalDecision(allowed=False, reason=reply)


KEYS = """\
  Ctrl-C       stop the turn
  Enter alone  let a turn that was cut off go on
  Ctrl-D       end"""
_STOPS = {"denial": "denies", "failure": "failed"}
"""Kinds of hook verdicts that may be the reason for a missing answer."""

How: TypeAlias = Callable[[Coroutine[Any, Any, LoggedString]], Coroutine[Any, Any, LoggedString]]


def print_session_notes(chat: OpenChat, *, resumed: bool) -> None:
    """Print the session and the notes about its log on standard error."""
    session = chat.session
    tell(f"{'Session resumed from' if resumed else 'Session'} {session.path}")
    for line in chat.notes:
        tell(line)
    if session.torn is not None:
        tell(f"An incomplete last line was moved to {session.torn}")


def tell(text: str) -> None:
    """Print a text that is not an answer on standard error."""
    click.echo(escape_control_characters(text), err=True)


async def run_unchanged(work: Coroutine[Any, Any, LoggedString]) -> LoggedString:
    """Await the coroutine without any change."""
    return await work


class PlainChat:
    """A conversation in plain lines."""

    doing: Mapping[AgentId, str] = {}
    keys = KEYS

    def __init__(
        self,
        chat: OpenChat,
        runner: asyncio.Runner,
        *,
        as_json: bool,
        typed: StdinReader | None = None,
        most_calls: int = MAX_MODEL_CALLS,
    ) -> None:
        """Talk with the primary agent; `as_json` prints one object an answer.

        most_calls: how often an agent may call its model in one turn.
        """
        self.chat, self.runner, self.as_json = chat, runner, as_json
        self._typed = typed or StdinReader()
        self.session, self.runtime = chat.session, chat.runtime
        self.shell = chat.shell
        self.failed = False
        """Whether a turn ended without an answer."""
        self.onward: NextSession | None = None
        """The session in which the chat continues. None if there is no such session."""
        self._ended = False
        self._prompts: Mapping[str, Command] | None = None
        """The prompts of MCP servers. None before the first access."""
        self._tally = UsageTotal()
        self._limit = TurnLimit(most_calls)
        self.session.add_listener(self._on_event)

    def run_single_turn(self, prompt: str) -> None:
        """Send a message and print the answer. Raises ModelError."""
        if not prompt.strip() and not has_open_calls(self.chat.primary):
            raise click.UsageError("-p needs a prompt: there is no interrupted turn to continue")
        try:
            self.ask(prompt if prompt.strip() else None)
        except ModelError as error:
            self.print_failure(error)
            raise
        finally:
            self.print_refusals()

    def talk(self) -> None:
        """Send lines of input until the end of the input. Trigger events are answered, too."""
        if has_open_calls(self.chat.primary):
            self.explain("The last turn was interrupted")
        is_typed = stdin_is_interactive()
        with self.listening():
            while not self._ended and (line := self._line()) is not None:
                if is_typed and self._is_command(line.strip()):
                    run_command(self, line)
                elif line.strip() or has_open_calls(self.chat.primary):
                    self.try_to_ask(line.strip() or None)
        self.print_refusals()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Process trigger events whenever the event loop runs."""
        stack = AsyncExitStack()
        self.runner.run(stack.enter_async_context(self.chat.conversation.listen()))
        try:
            yield
        finally:
            self.runner.run(stack.aclose())

    def _line(self) -> str | None:
        """Return the next line. Trigger events before it are answered."""
        conversation = self.chat.conversation
        while conversation.is_waiting:
            came, line = self.runner.run(
                self._typed.read_line_unless(conversation.wait_for_unread())
            )
            if came:
                return line
            self.try_to_ask(None)
        return self._typed.read_line()

    def _is_command(self, line: str) -> bool:
        return line.startswith(("/", SHELL)) and is_command(line, self.user_commands)

    def _on_event(self, event: Event) -> None:
        self._tally.add(event)
        self._limit.on_event(event)
        if isinstance(event, TranscriptEdited) and event.summary is not None:
            agent = self.session.agents[event.agent_id or AgentId("")]
            tell(f"{agent.name or agent.id}: the context was compacted")
        elif isinstance(event, HookVerdict):
            self._print_refusal(event)

    def _print_refusal(self, event: HookVerdict) -> None:
        """Print that a hook denied or failed: it explains a missing answer."""
        kind = verdict_kind(event)
        if kind in _STOPS:
            hook = self.session.agents[event.agent_id or AgentId("")]
            words = one_line(event.failed or event.text or "", 300)
            tell(f"hook {hook.name or hook.id} {_STOPS[kind]}: {words}")

    def usable_models(self) -> Sequence[str]:
        """Return names of models that can be used now."""
        return list_models(self.chat.settings)

    def print_text(self, text: str) -> None:
        """Print the output of a slash command."""
        say(text)

    def compact(self, instructions: str) -> None:
        """Compact the context of the agent. Raises ModelError, ConfigError."""
        agent = self.chat.primary
        if not isinstance(agent, SmartAgent):
            raise ConfigError(f"{agent.name} is a dumb agent and has no context to compact")
        try:
            self.print_text(format_compaction(self.runner.run(agent.compact(instructions))))
        except KeyboardInterrupt:
            tell("Interrupted; nothing was changed")

    @property
    def primary(self) -> Agent:
        """The agent that the user talks with."""
        return self.chat.primary

    @property
    def user_commands(self) -> Mapping[str, Command]:
        """The commands that the user defined, and prompts of MCP servers."""
        if self._prompts is None:
            self._prompts = {}
            mcp = self.runtime.world.mcp
            if mcp is not None and mcp.servers:
                self._prompts = prompt_commands(self.runner.run(mcp.prompts()))
        return {**self._prompts, **prompt_file_commands(self.chat.settings.prompt_files)}

    def act(self, doing: Doing) -> None:
        """Run an operation on the agents and print its result. A new primary agent may answer."""
        before, first = self.primary.agent_id, self.session.next_id()
        try:
            self.print_text(text_of(self.runner.run(doing()).content))
        except ModelError as error:
            tell(f"harken: {error}")
            return
        except KeyboardInterrupt:
            tell("Interrupted")
            return
        if self.primary.agent_id == before or not has_open_calls(self.primary):
            return
        if owes_answer_since(self.primary, first):
            self.try_to_ask(None)
        else:
            tell(f"An empty line lets {self.primary.name} answer the last message")

    def send(self, text: str) -> None:
        """Send a text to the agent, as if it had been typed."""
        self.try_to_ask(text)

    def fetch(self, doing: Callable[[], Coroutine[Any, Any, str]]) -> None:
        """Fetch a text, and send it to the agent."""
        try:
            text = self.runner.run(doing())
        except ToolError as error:
            tell(f"harken: {error}")
        else:
            self.try_to_ask(text)

    def go_on(self, onward: NextSession) -> None:
        """End this session after this command, and continue in another."""
        self.onward, self._ended = onward, True

    def lend(self, words: Sequence[str]) -> bool:
        """Return False: there is no screen on which another command could draw."""
        return False

    def quit(self) -> None:
        """End after this command."""
        self._ended = True

    def try_to_ask(self, line: str | None) -> None:
        """Send a message. A failed model call or Ctrl-C is printed, and the chat continues."""
        try:
            self.ask(line)
        except ModelError as error:
            self.failed = True
            self.print_failure(error)
            self.explain(f"harken: {error}")
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            self.explain("Interrupted")

    def print_failure(self, error: ModelError) -> None:
        """Print the error object of `--json`. Without `--json` the error is printed elsewhere."""
        if self.as_json:
            row = {"session": self.session.state.session_id, "error": str(error), "why": error.kind}
            print_json(row, indent=None)

    def print_refusals(self) -> None:
        """Print the number of actions that were denied because no user could be asked."""
        permissions = self.runtime.world.permissions
        if permissions is not None and (refused := permissions.unavailable_count):
            were = "was" if refused == 1 else "were"
            how = "no user to ask for approval; see --permission"
            tell(f"{format_count(refused, 'action')} {were} refused: {how}")

    def explain(self, text: str) -> None:
        """Print why a turn ended without an answer, and how it can continue."""
        is_open = has_open_calls(self.chat.primary)
        tell(f"{text}; an empty line continues" if is_open else text)

    def ask(self, line: str | None, how: How = run_unchanged) -> None:
        """Send a message and print the answer, or on standard error why there is none.

        how: runs the coroutine of the turn.
        """
        self._tally = UsageTotal()
        began = time.monotonic()
        conversation = self.chat.conversation
        answer = self.runner.run(self._limit.run(how(conversation.say(line))))
        if self.as_json:
            row = self.row(conversation.speaker.agent_id, answer, time.monotonic() - began)
            print_json(row, indent=None)
        elif answer.is_answer:
            say(str(answer))
        if not answer.is_answer:
            self.failed = True
            tell(one_line(str(answer), 300))

    def row(self, agent_id: AgentId, answer: LoggedString, seconds: float) -> dict[str, Any]:
        """Return an answer as the object that `--json` prints, with the usage of its turn."""
        state = self.session.state
        return {
            "session": state.session_id,
            "agent": agent_id,
            "message_id": answer.message_id,
            "text": str(answer),
            "stop_reason": answer.stop_reason,
            "model": state.agents[agent_id].language_model,
            "usage": self._tally.usage(),
            "cost_usd": self._tally.cost_usd,
            "seconds": round(seconds, 3),
        }
