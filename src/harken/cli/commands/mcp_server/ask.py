"""The tool `ask`: continue an agent from a commit or session in a branch, and ask it a question."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Lock
from typing import TYPE_CHECKING, Annotated, TypeVar

import click
from msgspec import Meta, Struct

from harken.cli.commands.mcp_server.server_home import ServerHome
from harken.config.store import open_configured_store
from harken.terminal.text import escape_control_characters
from harken.world.page import MAX_PAGE_CHARS
from harken.world.permissions.mode import narrower
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext, typed_tool

if TYPE_CHECKING:
    from harken.chat.options import ChatOptions

T = TypeVar("T")
MAX_MODEL_CALLS = 50
"""The limit of model calls for one answer."""


class AskAgent(Struct, frozen=True, kw_only=True):
    """Ask an agent of an earlier session: it continues, with all that it knew, in a branch.

    The earlier session is not changed. The agent may read files here, but no user can approve
    other actions. It may take minutes, and costs as much as a request with that conversation. The
    result names the new session, in which you can ask again.
    """

    session: Annotated[
        str,
        Meta(description="A session, a commit (ctx-...), a branch, or PRINCIPAL@TIME."),
    ]
    question: str
    at: Annotated[
        str,
        Meta(description="The number of the message after which the branch begins; -1: the last."),
    ] = ""
    model: Annotated[str, Meta(description="PROVIDER/MODEL. Default: as configured.")] = ""


def make_ask_tool(home: ServerHome) -> Tool:
    """Return the tool."""

    async def run(call: AskAgent, _: ToolContext | None) -> str:
        turn = BranchTurn()
        try:
            return await home.run(lambda: _ask(home, call, turn))
        except asyncio.CancelledError:
            turn.cancel()
            raise

    return typed_tool(AskAgent, run, name="ask")


class BranchTurn:
    """A coroutine that runs in the event loop of its own thread, and that others may cancel."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._task: asyncio.Task[object] | None = None
        self._is_cancelled = False

    def run(self, runner: asyncio.Runner, work: Coroutine[object, object, T]) -> T:
        """Return the result of a coroutine. Raises CancelledError if it was cancelled."""
        return runner.run(self._run(work))

    async def _run(self, work: Coroutine[object, object, T]) -> T:
        with self._lock:
            self._task = asyncio.current_task()
            if self._is_cancelled:
                work.close()
                raise asyncio.CancelledError
        return await work

    def cancel(self) -> None:
        """Cancel the coroutine, also before it begins. Called in another thread."""
        with self._lock:
            self._is_cancelled = True
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def _ask(home: ServerHome, call: AskAgent, turn: BranchTurn) -> str:
    """Return the answer, and the name of its session. Raises ToolError, HarkenError."""
    from harken.chat.options import ChatOptions
    from harken.cli.options.conversation import resolve_conversation
    from harken.config.settings import load_settings
    from harken.context.position import get_or_create_commit

    if not call.question.strip():
        raise ToolError("ask: the question is empty")
    with open_configured_store(home.home) as store:
        resolved = resolve_conversation(home.home, store, call.session, call.at or None)
        ctx = get_or_create_commit(store, resolved.moment)
    permission = narrower(load_settings(home.home).permission, "ask")
    wish = ChatOptions(
        ctx=ctx, model=call.model or None, permission=permission, max_calls=MAX_MODEL_CALLS
    )
    return _answer(home, wish, call.question, turn)


def _answer(home: ServerHome, wish: ChatOptions, question: str, turn: BranchTurn) -> str:
    from harken.chat.open import open_chat
    from harken.chat.turn_limit import TurnLimit

    chat = open_chat(home.home, wish, on_notice=_log_notice)
    limit = TurnLimit(wish.max_calls)
    with chat, asyncio.Runner() as runner:
        chat.session.add_listener(limit.on_event)
        try:
            answer = turn.run(runner, limit.run(chat.conversation.say(question)))
        finally:
            runner.run(chat.runtime.world.close())
        chat.end()
    name = chat.session.path.stem
    if not answer.is_answer:
        raise ToolError(f"{answer} (in session {name})")
    return f"{_truncate(str(answer), name)}\n\n(session {name})"


def _truncate(text: str, session: str) -> str:
    hidden = len(text) - MAX_PAGE_CHARS
    if hidden <= 0:
        return text
    note = f"({hidden:,} more characters: conversation with session={session} and full=true)"
    return f"{text[:MAX_PAGE_CHARS]}\n{note}"


def _log_notice(text: str) -> None:
    click.echo(escape_control_characters(text), err=True)
