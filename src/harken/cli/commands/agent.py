"""`harken agent run`: run an agent without a chat while triggers can wake it."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import TYPE_CHECKING

import click

from harken.agents.open_calls import has_open_calls
from harken.cli.command_group import CommandGroup
from harken.cli.commands.chat.command import chat_options
from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import Duration
from harken.config.home import Home, command_prefix
from harken.core import structs
from harken.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, TypeVar

    from harken.chat.options import ChatOptions
    from harken.chat.plain_chat import PlainChat

    T = TypeVar("T")

TERMINATED = 128 + signal.SIGTERM
INTERRUPTED = 128 + signal.SIGINT


@click.group(name="agent", cls=CommandGroup)
def command() -> None:
    """Run an agent without a chat."""


@command.command(name="run")
@chat_options
@click.option("--template", metavar="NAME", help="The template of the agent.")
@click.option("--for", "longest_s", type=Duration(), help="Stop after this time: 90s, 10m, 2h.")
@json_option
@home_option
def run_command(
    wish: ChatOptions,
    prompt: str | None,
    template: str | None,
    longest_s: float | None,
    as_json: bool,
    home: Home,
) -> int:
    """Run an agent, print its answers, and wait for its triggers.

    Triggers are set by the agent: changed files, times, background commands, HTTP requests. Without
    triggers the command ends after the first answer; else Ctrl-C or --for ends it. --resume arms
    the remaining triggers again. No user can be asked for approval: see --permission.
    """
    from harken.chat.open import open_chat
    from harken.chat.plain_chat import PlainChat, print_session_notes, tell
    from harken.config.settings import load_settings

    if prompt == "-":
        prompt = sys.stdin.read()
    if wish.old is None and not (prompt or "").strip():
        raise click.UsageError("a new agent needs a prompt: -p PROMPT")
    if template is not None:
        if wish.old is not None or wish.system_prompt is not None:
            raise click.UsageError(
                "--template is for a new session, and cannot be combined with --system-prompt"
            )
        loaded_template = load_settings(home).templates.find(template)
        model = wish.model or loaded_template.model
        wish = structs.replace(
            wish, model=model, system_prompt=loaded_template.instructions, template=loaded_template
        )
    opened_chat = open_chat(home, structs.replace(wish, wakes=True), on_notice=tell)
    with opened_chat, asyncio.Runner() as runner:
        print_session_notes(opened_chat, resumed=wish.old is not None)
        chat = PlainChat(opened_chat, runner, as_json=as_json, most_calls=wish.max_calls)
        ends = None if longest_s is None else time.monotonic() + longest_s
        code = _Work(chat, runner, ends).run((prompt or "").strip() or None)
        chat.print_refusals()
        opened_chat.end()
    if opened_chat.agent.state.triggers:
        resume_command = command_prefix("agent", "run", "--resume", opened_chat.session.path.stem)
        tell(f"some triggers are still armed; resume with: {resume_command}")
    return code


class _Work:
    """The turns of the agent, one after the other, with a time limit."""

    def __init__(self, chat: PlainChat, runner: asyncio.Runner, ends: float | None) -> None:
        self._chat, self._runner, self._ends = chat, runner, ends

    def run(self, prompt: str | None) -> int:
        """Send the prompt, and answer triggers until none can fire; return the exit code."""
        talk = self._chat.chat.conversation
        try:
            with self._chat.listening():
                if prompt is not None or has_open_calls(talk.primary):
                    self._chat.ask(prompt, self._in_time)
                while self._runner.run(self._in_time(talk.wait_for_unread(to_the_end=True))):
                    self._answer()
        except TimeoutError:
            return int(self._chat.failed)
        except asyncio.CancelledError:
            return TERMINATED
        except KeyboardInterrupt:
            return INTERRUPTED
        except ModelError as error:
            self._chat.print_failure(error)
            raise
        return int(self._chat.failed)

    def _answer(self) -> None:
        """Let the agent answer trigger events. After a model failure the next call may succeed."""
        from harken.chat.plain_chat import tell

        try:
            self._chat.ask(None, self._in_time)
        except ModelError as error:
            self._chat.failed = True
            self._chat.print_failure(error)
            tell(f"harken: {error}")

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine; SIGTERM cancels it. Raises TimeoutError at the time limit."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        remaining_s = None if self._ends is None else self._ends - time.monotonic()
        async with asyncio.timeout(remaining_s):
            return await work
