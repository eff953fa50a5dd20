"""`harken view SESSION ...`: a session from many sides, in the terminal or as JSON.

Every view is a pure function in `harken.views`; here it gets its text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import click

from harken.cli.home import Home, home_option, json_option
from harken.cli.terminal import indent, one_line, say, say_json
from harken.core.events import event_type
from harken.core.messages import text_of
from harken.errors import UnknownName
from harken.views.context import ContextMessage, context
from harken.views.filter import select
from harken.views.flow import hearers
from harken.views.interventions import interventions
from harken.views.perspective import perspective
from harken.views.timeline import timeline
from harken.views.tree import TreeRow, tree
from harken.views.viewer import SessionViewer
from harken.views.words import without_label

Row: TypeAlias = dict[str, Any]


@click.group(name="view")
@click.argument("session")
@home_option
@click.pass_context
def command(ctx: click.Context, session: str, home: Home) -> None:
    """Look at a SESSION (its id, the beginning of it, or a file).

    Agents are named by name or id, messages by id or number. Try: tree, dialog, timeline.
    """
    del home  # the view is passed it again
    ctx.obj = session


def view(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a view of a function: it gets the viewer, `as_json` and what it asks for itself."""

    def make(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def opened(session: str, /, home: Home, **options: Any) -> None:
            function(open_viewer(home, session), **options)

        return command.command(name=name)(json_option(home_option(click.pass_obj(opened))))

    return make


def open_viewer(home: Home, session: str) -> SessionViewer:
    """Open a session for a view; say on standard error what is odd about its log."""
    viewer = SessionViewer(home.find(session))
    if viewer.events and viewer.reading.torn:
        click.echo("Its last line is half-written: it is left out here.", err=True)
    if not viewer.reading.sealed:
        dialect = viewer.reading.dialect or "without sums"
        click.echo(f"An older log ({dialect}): nothing vouches for its lines.", err=True)
    return viewer


def _nothing(text: str) -> None:
    click.echo(text, err=True)


@view("tree")
def tree_command(viewer: SessionViewer, as_json: bool) -> None:
    """Show the agents: who made whom, who watches, who is gone."""
    rows = tree(viewer.events)
    if as_json:
        say_json([row.as_json() for row in rows])
        return
    for row in rows:
        say("  " * row.depth + _agent_line(row))


def _agent_line(row: TreeRow) -> str:
    known = row.agent_id if row.name != row.agent_id else ""
    notes = [known, "hook" if row.place == "hook" else "", row.language_model or ""]
    notes += [f"{row.entries} entries", f"{row.model_calls} model calls"]
    notes += ["gone"] if row.gone else []
    return f"{one_line(row.name, 40)}  ({', '.join(note for note in notes if note)})"


@view("dialog")
@click.argument("agents", nargs=-1, required=True)
def dialog_command(viewer: SessionViewer, agents: Sequence[str], as_json: bool) -> None:
    """Show what AGENTS said and heard, each thing once."""
    items = viewer.extract_dialog(agents)
    if as_json:
        say_json(items)
        return
    for item in items:
        say(f"{item.get('name') or '?'}: {indent(spoken(viewer, item), '  ')}")
        for version in item.get("versions", []):
            say(f"  (differs) {version['name']} heard: {indent(version['content'], '    ')}")
    if not items:
        _nothing("Nothing was said among them.")


def spoken(viewer: SessionViewer, item: Row) -> str:
    """Return the words of a dialog without the label in which another heard them."""
    names = viewer.events.names.ever(item.get("agent_id"))
    return without_label(item["content"], names)


@view("perspective")
@click.argument("agent")
def perspective_command(viewer: SessionViewer, agent: str, as_json: bool) -> None:
    """Show what AGENT heard, thought, did and said."""
    agent_id = viewer.resolve_agent(agent)
    if as_json:
        say_json([moment.as_json() for moment in perspective(viewer.events, agent_id)])
    else:
        say(viewer.extract_agent_perspective(agent_id))


@view("transcript")
@click.argument("agent")
def transcript_command(viewer: SessionViewer, agent: str, as_json: bool) -> None:
    """Show AGENT's transcript, whole, with ids and links."""
    entries = viewer.get_transcript(viewer.resolve_agent(agent))
    if as_json:
        say_json(entries)
        return
    for entry in entries:
        say(f"{entry['message_id']} {_links(entry)}{entry['role']}: {indent(_text(entry), '  ')}")


@view("flow")
@click.argument("message")
def flow_command(viewer: SessionViewer, message: str, as_json: bool) -> None:
    """Show all that led to MESSAGE, oldest first."""
    _events(viewer, viewer.trace_message_flow(viewer.resolve_message(message)), as_json=as_json)


@view("refs")
@click.argument("message")
def refs_command(viewer: SessionViewer, message: str, as_json: bool) -> None:
    """Show who heard MESSAGE, itself or in what others made of it."""
    hops = hearers(viewer.events, viewer.resolve_message(message))
    if as_json:
        say_json([hop.as_json() for hop in hops])
        return
    for hop in hops:
        how = "changed" if hop.differs else "itself" if hop.via == "substance" else "as a part of"
        text = one_line(hop.content)
        say(f"{hop.message_id} {hop.name} ({how}, hop {hop.hops}): {text}")
    if not hops:
        _nothing("Nobody heard it.")


@view("context")
@click.argument("request")
def context_command(viewer: SessionViewer, request: str, as_json: bool) -> None:
    """Show the exact messages that a model call saw.

    REQUEST is the call's id, or that of its answer; what is new since the call before is marked.
    """
    view = context(viewer.events, viewer.resolve_message(request))
    if as_json:
        say_json(view.as_json())
        return
    name = viewer.events.names.of(view.agent_id)
    say(f"{view.request}: {name} asked {view.model} with {len(view.messages)} messages")
    if not view.verified:
        click.echo("These messages do not have the hash that was logged with the call.", err=True)
    for row in view.messages:
        say(_context_line(row))
    for row in view.dropped:
        say(f"no longer there: {_context_line(row)}")


def _context_line(row: ContextMessage) -> str:
    message = row.message
    mark = "+" if row.new else " "
    calls = [
        f"{call.function.name}({call.function.arguments})" for call in message.tool_calls or ()
    ]
    text = "\n".join(part for part in (text_of(message.content), *calls) if part)
    return f"{mark}{row.position:4} {row.message_id or row.loaded} {message.role}: " + indent(
        text, "      "
    )


@view("timeline")
def timeline_command(viewer: SessionViewer, as_json: bool) -> None:
    """Show everything that happened, in order, agents as lanes."""
    view = timeline(viewer.events)
    if as_json:
        say_json(view.as_json())
        return
    names = [lane.name or lane.agent_id for lane in view.lanes]
    width = min(max(map(len, names), default=0), 20)
    for mark in view.marks:
        who = names[mark.lane] if mark.lane is not None else ""
        what = f"{mark.event_type}:{mark.role}" if mark.role else mark.event_type
        line = f"{mark.time[11:23]} {mark.message_id} {one_line(who, 20):<{width}} {what}"
        say(f"{line}  {one_line(mark.text, 80)}".rstrip())


@view("hooks")
def hooks_command(viewer: SessionViewer, as_json: bool) -> None:
    """Show what hooks rewrote, and what became of it."""
    rows = interventions(viewer.events)
    if as_json:
        say_json([row.as_json() for row in rows])
        return
    for row in rows:
        say(f"{row.message_id} {row.name} proposed: {one_line(row.proposed)}")
        say(f"  {row.became_id} {row.heard_by_name} got: {one_line(row.became)}")
    if not rows:
        _nothing("No hook rewrote anything. What one said: harken view SESSION perspective HOOK")


@view("raw")
@click.option("--type", "type_", metavar="EVENT_TYPE", help="Only events of this type.")
@click.option("--agent", metavar="AGENT", help="Only events about this agent.")
@click.option(
    "--role",
    type=click.Choice(["system", "user", "assistant", "tool"]),
    help="Only entries with this role.",
)
@click.option("--link", metavar="MESSAGE", help="Only events that point at this message.")
def raw_command(
    viewer: SessionViewer,
    type_: str | None,
    agent: str | None,
    role: str | None,
    link: str | None,
    as_json: bool,
) -> None:
    """Show the events, one a line. With --json all of each."""
    types = dict.fromkeys(map(event_type, viewer.events))
    if type_ is not None and type_ not in types:
        raise UnknownName("event of type", type_, types)
    agent_id = viewer.resolve_agent(agent) if agent is not None else None
    link = viewer.resolve_message(link) if link is not None else None
    events = viewer.events
    found = [*select(events, event_type=type_, agent_id=agent_id, role=role, link=link)]
    if not found:
        _nothing("No event is like that.")
    _events(viewer, [viewer.raw(event) for event in found], as_json=as_json)


def _events(viewer: SessionViewer, events: Sequence[Row], *, as_json: bool) -> None:
    if as_json:
        say_json(list(events))
        return
    names = viewer.list_agents()
    for event in events:
        who = names.get(event.get("agent_id", ""), event.get("agent_id", ""))
        say(f"{event['message_id']} {who} {_links(event)}{_message(event)}".replace("  ", " "))


def _links(event: Row) -> str:
    found = [(name, event[name]) for name in ("substance", "cause") if event.get(name)]
    links = [f"{n}={','.join(v) if isinstance(v, list) else v}" for n, v in found]
    return f"[{' '.join(links)}] " if links else ""


def _message(event: Row) -> str:
    """Write an event on one line: its role or type, and its text or members."""
    kind = event.get("role") or event["event_type"]
    return f"{kind}: {one_line(_text(event), 160)}"


def _text(event: Row) -> str:
    """Return what an event says: its text and calls, else its members."""
    content = event.get("content")
    parts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        parts = [str(part.get("text", f"<{part.get('type')}>")) for part in content]
    for call in event.get("tool_calls") or ():
        function = call.get("function", {})
        parts.append(f"{function.get('name')}({function.get('arguments')})")
    if not parts:
        hidden = {"message_id", "event_type", "time", "agent_id", "cause", "substance"}
        parts = [f"{name}={_plain(value)}" for name, value in event.items() if name not in hidden]
    return " ".join(parts)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
