"""`harken view SESSION` without a view: the conversation, as its chat showed it."""

from __future__ import annotations

import click

from harken.cli.commands.view.command import full_option, open_viewer
from harken.cli.commands.view.conversation_text import conversation_text, talking_agent
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, environment
from harken.terminal.pager import columns, print_paged
from harken.terminal.text import print_json
from harken.views.dialog import perspective


@click.command(name="conversation")
@full_option
@json_option
@home_option
@click.pass_obj
def command(session: str, full: bool, as_json: bool, home: Home) -> None:
    """Show the conversation as in its chat, with results and thinking folded.

    Subagents are shown at the calls that started them. With --json the output is the perspective of
    the user's agent.
    """
    viewer = open_viewer(home, session)
    if as_json:
        talker = talking_agent(viewer)
        print_json([moment.as_json() for moment in perspective(viewer.events, talker)])
        return
    colour = not environment().get("NO_COLOR")
    print_paged(conversation_text(viewer, columns(), colour=colour, full=full))
