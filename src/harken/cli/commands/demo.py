"""`harken demo`: an example session, offline, in a few seconds."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import click

from harken.agents.load import load_session
from harken.agents.runtime import AgentRuntime
from harken.chat.demo_model import demo_model
from harken.cli.commands.view.command import format_dialog_text
from harken.cli.options.home import home_option
from harken.config.home import Home
from harken.core.events import LlmRequest
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.session.session import SessionOptions
from harken.terminal.text import one_line, print_text, program_name
from harken.views.filter import utterances
from harken.views.flow import hearers
from harken.views.viewer import SessionViewer

PROMPT = "Let Jack and Jill meet in a cafe."
SYSTEM_PROMPT = "You are the host of a small cafe. You create people and let them talk."


def play(log: Path, options: SessionOptions | None = None) -> str:
    """Run the demo with a new log; return the answer of the root agent."""
    runtime = AgentRuntime(model=demo_model())
    root, session = load_session(
        log, runtime=runtime, system_prompt=SYSTEM_PROMPT, name="main", options=options
    )
    with session:
        answer = asyncio.run(root.response(PROMPT))
        session.end("demo")
    return answer


@click.command()
@home_option
def command(home: Home) -> None:
    """Run a demo offline: two agents, Jack and Jill, meet in a cafe."""
    log = home.create_log("demo")
    answer = play(log)
    show(log, answer, home)


def show(log: Path, answer: str, home: Home) -> None:
    """Print the dialog, Jill's perspective, the listeners, and further commands."""
    viewer = SessionViewer(log)
    title("The dialog")
    for item in viewer.extract_dialog(["Jack", "Jill"]):
        print_text(f"  {item['name']}: {item['content']}")
    title("The perspective of Jill: the dialog with her inner voice")
    for item in viewer.extract_dialog(["Jill", "Inner"]):
        print_text(f"  {item['name']}: {format_dialog_text(viewer, item)}")
    title("The agents that received each message")
    for entry in utterances(viewer.events):
        names = [hop.name or "?" for hop in hearers(viewer.events, entry.message_id)]
        agent_name = viewer.list_agents()[entry.agent_id or AgentId("")]
        print_text(f"  {entry.message_id} {agent_name}: {one_line(text_of(entry.content), 48)}")
        print_text(f"          heard by {', '.join(names) or 'the user'}")
    title("The answer")
    print_text(f"  {answer}")
    title("Look further")
    requests = [event.message_id for event in viewer.events if isinstance(event, LlmRequest)]
    for command_line in further(log, home, requests[-2]):
        print_text(f"  {command_line}")
    title("In the browser")
    print_text(f"  {program_name()} ui {log.stem}{_home_option(home)}")


def further(log: Path, home: Home, request: str) -> list[str]:
    """Return the commands that lead on from the demo."""
    opt, harken, id_ = _home_option(home), program_name(), log.stem
    return [
        f"{harken} view {id_} tree{opt}",
        f"{harken} view {id_} perspective Jill{opt}",
        f"{harken} view {id_} timeline{opt}",
        (f"{harken} view {id_} context {request}{opt}   # the exact messages of a request of Jill"),
        f"{harken} sessions check {id_}{opt}",
        f'{harken} chat --resume {id_} -p "go on"{opt}   # resume the session',
    ]


def _home_option(home: Home) -> str:
    return f" --home {shlex.quote(str(home.folder))}" if home.is_chosen else ""


def title(text: str) -> None:
    """Print a heading."""
    click.echo()
    click.secho(text, bold=True)
