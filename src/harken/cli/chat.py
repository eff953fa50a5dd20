"""`harken chat`: say something, hear the answer; everything is in the log."""

from __future__ import annotations

import asyncio
import sys
from functools import cache
from pathlib import Path

import click

from harken.agents.base import Agent, revive
from harken.agents.budget import Budget
from harken.agents.load import load_session
from harken.agents.runtime import Runtime
from harken.agents.smart import SmartAgent
from harken.cli.demo import MODEL_NAME, demo_model
from harken.cli.home import Home, home_option, json_option
from harken.cli.terminal import safe, say, say_json
from harken.core.text import LoggedString
from harken.errors import ConfigError, HarkenError, ModelError, ScriptError, UnknownName
from harken.llm.base import Model, ModelResolver
from harken.llm.replay import ReplayModel
from harken.llm.resolve import resolve_model
from harken.session.session import Session

BUDGET = Budget(depth=8, live_subagents=64)
"""What a new session may become without asking: agents that make agents would not end."""
SYSTEM_PROMPT = "You are a helpful agent. You can create subagents and discuss with them."


@click.command()
@click.option("--model", metavar="MODEL", help="scripted:FILE.yaml or replay:SESSION.")
@click.option("--resume", metavar="SESSION", help="Go on with this session (id or file).")
@click.option("--continue", "latest", is_flag=True, help="Go on with the latest session.")
@click.option("--system", metavar="TEXT", help="The system prompt of a new session.")
@click.option("-p", "prompt", metavar="PROMPT", help="Say this, print the answer, and end.")
@json_option
@home_option
def command(
    model: str | None,
    resume: str | None,
    latest: bool,
    system: str | None,
    prompt: str | None,
    as_json: bool,
    home: Home,
) -> int:
    """Talk with an agent; everything is kept.

    The first agent is called "main". An empty line (or -p "") goes on where a turn was cut off;
    Ctrl-C cuts a turn off, Ctrl-D ends.
    """
    if resume is not None and latest:
        raise click.UsageError("--resume and --continue exclude each other")
    old = home.latest() if latest else home.find(resume) if resume is not None else None
    if old is None and prompt is not None and not prompt.strip():
        raise click.UsageError("-p needs something to say")
    if old is not None and system is not None:
        raise click.UsageError("--system is for a new session: an old one has its prompt")
    agent, session = open_chat(home, model, old, system or SYSTEM_PROMPT)
    with session, asyncio.Runner() as runner:
        check_agent(agent)
        report(session, resumed=old is not None)
        chat = Chat(agent, session, runner, as_json=as_json)
        if prompt is None:
            chat.talk()
        else:
            chat.once(prompt)
        session.end("chat")
    return int(chat.failed and not sys.stdin.isatty())


def open_chat(
    home: Home, model: str | None, old: Path | None, system_prompt: str
) -> tuple[Agent, Session]:
    """Return the agent to talk with, of a new session or an old one.

    Raises ConfigError where no model is named, and what `load_session` raises.
    """
    if model is None and old is None:
        raise ConfigError("which model? Pass --model scripted:FILE.yaml (or try `harken demo`)")
    if old is not None and not (old.is_file() and old.stat().st_size):
        Session.load(old).close()  # says what is wrong with it
    find = model_finder(home)
    runtime = Runtime(model=chosen_model(find, model), models=find)
    path = old or home.new_session()
    root, session = load_session(
        path,
        runtime=runtime,
        system_prompt=system_prompt,
        name="main",
        budget=BUDGET if old is None else None,
    )
    primary = session.state.primary or root.agent_id
    return revive(session, primary, runtime), session


def model_finder(home: Home) -> ModelResolver:
    """Return what gives models by name, one a name; `replay:` takes sessions by id too."""

    @cache
    def find(name: str) -> Model:
        kind, _, file = name.partition(":")
        if name == MODEL_NAME:
            return demo_model()
        if kind == "replay" and file:
            return ReplayModel.load(home.find(file), name=name)
        return resolve_model(name)

    return find


def anchored(name: str) -> str:
    """Return a scripted model's name with the whole path: a resume may come from elsewhere."""
    kind, _, file = name.partition(":")
    if kind == "scripted" and name != MODEL_NAME and Path(file).is_file():
        return f"{kind}:{Path(file).absolute()}"
    return name


def chosen_model(find: ModelResolver, name: str | None) -> Model | None:
    """Return the model of the command line. Raises ConfigError also for a bad script."""
    try:
        return find(anchored(name)) if name is not None else None
    except ScriptError as error:
        raise ConfigError(str(error)) from None


def check_agent(agent: Agent) -> None:
    """Raise ConfigError, before anything is said, where its model or a hook is not at hand."""
    try:
        _ = agent.model if isinstance(agent, SmartAgent) else None
    except HarkenError as error:
        raise ConfigError(f"{error}; name a model that is there with --model") from None
    try:
        _ = agent.hooks
    except UnknownName as error:
        raise ConfigError(f"{error}; go on with the program that registers it") from None


def report(session: Session, *, resumed: bool) -> None:
    """Say on standard error which session this is, and what was found in its log."""
    what = "Session resumed from" if resumed else "Session"
    tell(f"{what} {session.path}")
    if session.torn is not None:
        tell(f"A half-written last line was set aside in {session.torn}")


def tell(text: str) -> None:
    """Print on standard error what is no answer."""
    click.echo(safe(text), err=True)


class Chat:
    """A conversation in plain lines."""

    def __init__(
        self, agent: Agent, session: Session, runner: asyncio.Runner, *, as_json: bool
    ) -> None:
        """Talk with `agent`; `as_json` prints one object an answer."""
        self.agent, self.session, self.as_json = agent, session, as_json
        self.runner = runner
        self.failed = False
        """Whether a turn ended without an answer."""

    def once(self, prompt: str) -> None:
        """Say one thing and print the answer. Raises ModelError."""
        if not prompt.strip() and not self.agent.cut_off:
            raise click.UsageError("-p needs something to say: no turn was cut off")
        self.ask(prompt if prompt.strip() else None)

    def talk(self) -> None:
        """Say what is typed, until the end of the input."""
        if self.agent.cut_off:
            self.explain("The last turn was cut off")
        while (line := read_line()) is not None:
            if line.strip() or self.agent.cut_off:
                self.try_to_ask(line.strip() or None)

    def try_to_ask(self, line: str | None) -> None:
        """Say one thing; a failed model call, or Ctrl-C, is told, and the chat goes on."""
        try:
            self.ask(line)
        except ModelError as error:
            self.failed = True
            self.explain(f"harken: {error}")
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            self.explain("Interrupted")

    def explain(self, text: str) -> None:
        """Say why a turn ended without an answer, and how it can go on."""
        tell(f"{text}; an empty line lets it go on" if self.agent.cut_off else text)

    def ask(self, line: str | None) -> None:
        """Say one thing and print the answer."""
        self.show(self.runner.run(self.agent.response(line)))

    def show(self, answer: LoggedString) -> None:
        """Print an answer."""
        if self.as_json:
            row = {
                "session": self.session.state.session_id,
                "agent": self.agent.agent_id,
                "message_id": answer.message_id,
                "text": str(answer),
            }
            say_json(row, indent=None)
        else:
            say(str(answer))


def read_line() -> str | None:
    """Return the next line of input, None at its end."""
    try:
        return input("> " if sys.stdin.isatty() else "")
    except EOFError:
        if sys.stdin.isatty():
            click.echo(err=True)
        return None
