"""`harken view SESSION` without a view: the conversation, as its chat showed it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from harken.cli.commands.view.command import drafts_option, full_option
from harken.cli.commands.view.conversation_text import (
    ConversationPrinter,
    conversation_text,
    talking_agent,
)
from harken.cli.commands.view.follow import (
    PrintEvents,
    follow_option,
    follow_session,
    print_perspective,
)
from harken.cli.commands.view.sources import open_viewer
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, environment
from harken.core.events import Event
from harken.terminal.pager import columns, print_paged, print_unpaged
from harken.terminal.text import print_json
from harken.views.dialogs.perspective import perspective
from harken.views.viewer import SessionViewer


@click.command(name="conversation")
@full_option
@drafts_option
@follow_option
@json_option
@home_option
@click.pass_obj
def command(
    session: str, full: bool, drafts: bool, follow: bool, as_json: bool, home: Home
) -> None:
    """Show the conversation as in its chat, with results and thinking folded.

    Subagents are shown at the calls that started them. Answers that hooks denied are left out,
    since nobody received them; --drafts includes them. With --json the output is the perspective of
    the user's agent.
    """
    if follow:
        follow_session(
            home,
            session,
            lambda viewer: _follow(viewer, full=full, drafts=drafts, as_json=as_json),
        )
        return
    viewer = open_viewer(home, session)
    if as_json:
        talker = talking_agent(viewer)
        print_json([moment.as_json() for moment in perspective(viewer.events, talker)])
        return
    print_paged(
        conversation_text(viewer, columns(), colour=_has_colour(), full=full, drafts=drafts)
    )


def _follow(viewer: SessionViewer, *, full: bool, drafts: bool, as_json: bool) -> PrintEvents:
    if as_json:
        return print_perspective(viewer, talking_agent(viewer), as_json=True)
    conversation = ConversationPrinter(
        viewer.path.stem, colour=_has_colour(), full=full, drafts=drafts, holds_back=True
    )

    def show(events: Sequence[Event]) -> None:
        print_unpaged(conversation.add(events, columns()))

    return show


def _has_colour() -> bool:
    return not environment().get("NO_COLOR")
