"""Slash commands: what a user can ask the chat itself. One function each.

A text is a command where it begins with `/` and its first word is no path: `/etc/hosts is odd`
is something to say. A unique beginning of a name is enough.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import click

from harken.agents.compaction import Compacted
from harken.agents.runtime import Runtime
from harken.cli.tally import CHARACTERS_A_TOKEN, by_agent, tally, tokens_text, used_text
from harken.cli.terminal import one_line
from harken.core.events import Event, LlmRequest, LlmResponse, TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import ThinkingPart
from harken.core.partial import thinking_in
from harken.errors import HarkenError
from harken.session.session import Session
from harken.views.context import ContextView
from harken.views.viewer import SessionViewer
from harken.views.words import words
from harken.views.written import count, written
from harken.world.permissions.permissions import Mode

MODES: tuple[Mode, ...] = ("ask", "edits", "all", "plan")


class Talk(Protocol):
    """What a command can see and do."""

    @property
    def session(self) -> Session:
        """The session that is talked about."""
        ...

    @property
    def runtime(self) -> Runtime:
        """What its agents share."""
        ...

    @property
    def doing(self) -> Mapping[AgentId, str]:
        """What busy agents are doing."""
        ...

    def say(self, text: str) -> None:
        """Show lines of text to the user."""
        ...

    def compact(self, instructions: str) -> None:
        """Let the agent that the user talks with sum up what it has in its context.

        Raises HarkenError where that cannot be now.
        """
        ...

    def quit(self) -> None:
        """End the chat."""
        ...


Action: TypeAlias = Callable[[Talk, str], None]


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    name: str
    meaning: str
    action: Action
    arguments: str = ""


COMMANDS: dict[str, Command] = {}


def slash(name: str, meaning: str, arguments: str = "") -> Callable[[Action], Action]:
    """Enter a function as a command; it is called with the talk and the words after the name."""

    def enter(action: Action) -> Action:
        COMMANDS[name] = Command(name, meaning, action, arguments)
        return action

    return enter


def is_command(text: str) -> bool:
    """Whether a text is meant for the chat itself, also if there is no such command."""
    word = text.split(maxsplit=1)[0] if text.startswith("/") else ""
    name = word.removeprefix("/")
    return bool(name) and "/" not in name and (bool(_named(name)) or not Path(word).exists())


def _named(name: str) -> Command | None:
    """Return the command with this name, or the only one that begins like this."""
    found = [COMMANDS[name]] if name in COMMANDS else []
    found = found or [known for known in COMMANDS.values() if known.name.startswith(name)]
    return found[0] if len(found) == 1 else None


def run_command(talk: Talk, text: str) -> bool:
    """Run a command; return whether there is one. What goes wrong is said."""
    word, _, rest = text.strip().partition(" ")
    name = word.removeprefix("/")
    command = _named(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, cutoff=0.5)
        near = near or [known for known in COMMANDS if known.startswith(name[:1])]
        meant = f"; did you mean {' or '.join(f'/{one}' for one in near)}?" if near else ""
        talk.say(f"there is no command /{name}{meant} (/help lists them)")
        return False
    try:
        command.action(talk, rest.strip())
    except HarkenError as error:
        talk.say(str(error))
    return True


@slash("help", "what can be typed here")
def _help(talk: Talk, _: str) -> None:
    shown = [(f"/{c.name} {c.arguments}".rstrip(), c.meaning) for c in COMMANDS.values()]
    width = max(len(name) for name, _ in shown)
    talk.say("\n".join(f"{name:<{width}}  {meaning}" for name, meaning in shown))
    talk.say(KEYS)


KEYS = """
Enter            send (while a turn runs: when it has ended)
Alt-Enter Ctrl-J a new line; so does \\ at the end of a line
@name, Tab       complete a file name
Up, Ctrl-R       what you said before
Ctrl-C           stop the turn; on an empty line twice: end
Esc              take back what waits; stop the turn
Ctrl-O           the last folded result, whole
Ctrl-T           the last thought
Ctrl-X Ctrl-E    write in your editor
Ctrl-D           end"""


@slash("context", "what the model reads, and how much of it is cached")
def _context(talk: Talk, _: str) -> None:
    viewer = SessionViewer(talk.session.path)
    primary = talk.session.state.primary or talk.session.state.root
    asked = [e for e in viewer.events if isinstance(e, LlmRequest) and e.agent_id == primary]
    messages = talk.session.context(primary or "")
    rows: dict[str, tuple[int, int]] = {}
    for message in messages:
        number, characters = rows.get(message.role, (0, 0))
        rows[message.role] = number + 1, characters + len(written(message))
    lines = [f"{count(len(messages), 'message')} in the context:"]
    lines += [
        f"  {role:<10} {number:>5}   ~{tokens_text(characters // CHARACTERS_A_TOKEN)} tokens"
        for role, (number, characters) in rows.items()
    ]
    if asked:
        view = viewer.context(asked[-1].message_id)
        schemas = len(str(view.tools or "")) // CHARACTERS_A_TOKEN
        lines.append(f"  {'tools':<10} {len(view.tools or ()):>5}   ~{tokens_text(schemas)} tokens")
        lines += _really_used(viewer, asked[-1], view)
    talk.say("\n".join(lines))


def _really_used(viewer: SessionViewer, request: LlmRequest, view: ContextView) -> Iterable[str]:
    """Yield what the provider counted of the last call, and whether its prefix was the old one."""
    responses = (e for e in viewer.events if isinstance(e, LlmResponse))
    usage = next((e.usage for e in responses if e.request == request.message_id), None)
    if usage is not None and usage.input_tokens is not None:
        cached = usage.cache_read_tokens
        part = "" if cached is None else f", {tokens_text(cached)} of them from the cache"
        yield f"the last call read {tokens_text(usage.input_tokens)} tokens{part}"
    else:
        yield "what the last call read was not counted"
    if view.previous is None:
        return
    first_new = next((row.position for row in view.messages if row.new), len(view.messages))
    kept_after = any(not row.new for row in view.messages[first_new:])
    if view.dropped or kept_after:
        at = min([row.position for row in view.dropped] + [first_new])
        what = one_line(words(view.dropped[0].message.content), 60) if view.dropped else ""
        gone = f": {view.dropped[0].message.role} {what!r} is gone" if view.dropped else ""
        yield f"its cached prefix broke at message {at}{gone}"
    else:
        yield f"its first {first_new} messages are those of the call before: all can be cached"


@slash("compact", "a summary in the place of what was said; all is kept", "[what to keep]")
def _compact(talk: Talk, rest: str) -> None:
    talk.compact(rest)


def compacted_text(done: Compacted | None) -> str:
    """Say what a compaction did."""
    if done is None:
        return "there is too little to sum up"
    before, after = tokens_text(done.tokens_before), tokens_text(done.tokens_after)
    messages = count(done.messages, "message")
    return f"{messages} summed up: the context takes ~{after} tokens, before ~{before}"


@slash("cost", "what was used, by agent and together")
def _cost(talk: Talk, _: str) -> None:
    events = [*SessionViewer(talk.session.path).events]
    each, agents = by_agent(events), talk.session.agents
    if not each:
        talk.say("no model was called yet")
        return
    rows = [(_name(talk, id_), sums) for id_, sums in each.items() if id_ in agents]
    rows.append(("together", tally(events)))
    width = max(len(name) for name, _ in rows)
    talk.say("\n".join(f"{name:<{width}}  {used_text(sums)}" for name, sums in rows))


def _name(talk: Talk, agent_id: AgentId) -> str:
    return one_line(talk.session.agents[agent_id].name or agent_id, 30)


@slash("agents", "who there is, what they do, and what they used")
def _agents(talk: Talk, _: str) -> None:
    viewer = SessionViewer(talk.session.path)
    each = by_agent(viewer.events)
    rows = []
    for row in viewer.tree():
        doing = "gone" if row.gone else talk.doing.get(row.agent_id, "")
        hook = "hook" if row.place == "hook" else ""
        used = used_text(each[row.agent_id]) if row.agent_id in each else ""
        notes = filter(None, [hook, row.language_model or "", doing, used])
        rows.append("  " * row.depth + f"{one_line(row.name, 30)}  {', '.join(notes)}")
    talk.say("\n".join(rows))


@slash("view", "a view of the session, as in `harken view`", "[tree|dialog A B|timeline|...]")
def _view(talk: Talk, rest: str) -> None:
    from harken.cli.view import command

    if (words := words_of(talk, "/view", rest)) is not None:
        talk.say(printed(command, "/view", [str(talk.session.path), *(words or ["--help"])]))


def words_of(talk: Talk, name: str, rest: str) -> list[str] | None:
    """Return what stands after a command; None, which is said, where a quotation has no end."""
    try:
        return shlex.split(rest)
    except ValueError as error:
        talk.say(f"{name}: {error}")
        return None


def printed(command: click.Command, name: str, line: list[str]) -> str:
    """Return what a command of the command line prints, with the home that was chosen there."""
    out = io.StringIO()
    parent = click.get_current_context(silent=True)
    with redirect_stdout(out), redirect_stderr(out):
        try:
            command.main(line, prog_name=name, standalone_mode=False, parent=parent)
        except click.ClickException as error:
            out.write(error.format_message())
        except SystemExit:
            pass  # after a --help
    return out.getvalue().rstrip()


@slash("show", "a message in full, such as a folded result", "N")
def _show(talk: Talk, rest: str) -> None:
    viewer = SessionViewer(talk.session.path)
    if not rest:
        talk.say("which message? /show 12 shows msg_012")
        return
    event = viewer.events.get(viewer.resolve_message(rest))
    if isinstance(event, TranscriptEntry):
        talk.say(written(event))
    else:
        talk.say(str({} if event is None else viewer.raw(event)))


@slash("thinking", "the last thought, whole")
def _thinking(talk: Talk, _: str) -> None:
    primary = talk.session.state.primary or talk.session.state.root
    events = reversed(SessionViewer(talk.session.path).events.events)
    thoughts = (_thought(event) for event in events if event.agent_id == primary)
    talk.say(next(filter(str.strip, thoughts), "nothing was thought aloud yet"))


def _thought(event: Event) -> str:
    """Return the last thought of an answer, also of one that did not end; else nothing."""
    if isinstance(event, LlmResponse):
        return thinking_in(event.partial)
    parts = event.content if isinstance(event, TranscriptEntry) else None
    thoughts = [part.text for part in parts or () if isinstance(part, ThinkingPart)]
    return next(filter(str.strip, reversed(thoughts)), "")


@slash("permission", "what agents may do without asking", "[ask|edits|all|plan]")
def _permission(talk: Talk, rest: str) -> None:
    permissions: Any = talk.runtime.world.permissions
    if permissions is None:
        talk.say("nothing is asked in this chat")
    elif not rest:
        talk.say(f"{permissions.mode}: {MEANINGS[permissions.mode]}")
    elif rest in MODES:
        permissions.mode = rest
        talk.say(f"{rest}: {MEANINGS[rest]}")
    else:
        talk.say(f"there is no mode {rest}; there is: {', '.join(MODES)}")


MEANINGS: dict[str, str] = {
    "ask": "reading is free, all else is asked",
    "edits": "reading, and editing files below the folder, is free; all else is asked",
    "all": "nothing is asked",
    "plan": "nothing but reading is done",
}


@slash("quit", "end the chat; the session is kept")
def _quit(talk: Talk, _: str) -> None:
    talk.quit()
