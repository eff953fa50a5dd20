"""`harken view SESSION ...`: a session from many sides, in the terminal or as JSON.

Every view is a pure function in `harken.views`; here it gets its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import click

from harken.cli.command_group import CommandGroup, load_command
from harken.cli.command_tree import CommandEntry
from harken.cli.commands.view.follow import (
    PrintEvents,
    follow_option,
    follow_session,
    print_perspective,
)
from harken.cli.commands.view.sources import open_viewer
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import SESSION
from harken.config.home import Home, command_prefix
from harken.core.events import Event, LlmResponse, event_type
from harken.core.ids import AgentId, MessageId
from harken.errors import ConfigError, NameNotFound
from harken.terminal.event_lines import (
    format_call_options,
    format_context_message,
    format_entry,
    format_event,
    format_model_name,
    iter_hook_lines,
    iter_timeline_lines,
)
from harken.terminal.pager import columns, page_output
from harken.terminal.text import indent, one_line, print_json, print_text
from harken.views.dialogs.dialog import Dialog, find_primary_agents
from harken.views.dialogs.perspective import perspective
from harken.views.filter import select, transcript
from harken.views.flow import hearers, trace
from harken.views.interventions import Intervention
from harken.views.message_text import format_count, format_evidence, strip_label
from harken.views.tree import TreeRow, format_origin, format_rerun
from harken.views.verdicts import VerdictRow, hook_rows
from harken.views.viewer import SessionViewer

Row: TypeAlias = dict[str, Any]
_LISTED_AGENTS = 12
_WIDE = 120
"""The number of columns of a timeline without a terminal."""
full_option = click.option(
    "--full", is_flag=True, help="Show results, thinking, prompts and arguments in full."
)
drafts_option = click.option(
    "--drafts", is_flag=True, help="Include answers that hooks denied, marked as drafts."
)
_SUBJECTS = {"input": "input", "action": "call", "result": "result", "response": "answer"}
_VERDICTS = {
    "comment": "comments on {}",
    "denial": "denies {}",
    "rewrite": "rewrites {}",
    "failure": "failed at {}",
}
_CONVERSATION = CommandEntry(
    "harken.cli.commands.view.conversation:command", "Show the conversation as in its chat."
)
"""Imported on demand: it needs the chat's renderer, which needs views."""


class _ViewGroup(CommandGroup):
    """A group that accepts options after SESSION if no view is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move options before SESSION: click takes the word after it for the name of a view."""
        has_view = any(arg in self.list_commands(ctx) for arg in args[1:])
        if len(args) > 1 and not has_view and args[1].startswith("-") and args[0][:1] != "-":
            args = [*args[1:], args[0]]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all views, also those of this module."""
        with formatter.section("Commands"):
            formatter.write_dl([*self.subcommand_help(ctx)])


@click.group(
    name="view",
    cls=_ViewGroup,
    entries={"conversation": _CONVERSATION},
    invoke_without_command=True,
)
@click.argument("session", type=SESSION)
@full_option
@drafts_option
@follow_option
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write the page of `harken ui` for this session to a file that works offline.",
)
@click.option(
    "--no-redact", is_flag=True, help="For --html: do not redact credentials and home folders."
)
@json_option
@home_option
@click.pass_context
def command(ctx: click.Context, /, session: str, home: Home, **options: Any) -> None:
    """Show a SESSION, recorded or imported, or the conversation of a commit.

    The default view is the conversation, folded as in a chat; --full unfolds it. Refer to agents by
    name, path (main/guard) or id, and to messages by id or number. Try: tree, dialog, timeline.
    With --html, all views are written to one file, for someone who has no Harken; - is stdout.
    """
    ctx.obj = session
    html, no_redact = options.pop("html"), options.pop("no_redact")
    option_names = {"full": "--full", "drafts": "--drafts", "follow": "--follow"}
    option_names["as_json"] = "--json"
    option = next((option_names[name] for name, is_given in options.items() if is_given), None)
    if html is not None:
        _write_html(home, session, html, ctx.invoked_subcommand or option, no_redact=no_redact)
        ctx.exit()
    if no_redact:
        raise click.UsageError("--no-redact requires --html FILE")
    if ctx.invoked_subcommand is None:
        conversation = load_command("conversation", _CONVERSATION)
        ctx.invoke(conversation, home=home, **options)
    elif option is not None:
        raise click.UsageError(f"put {option} after the view: {ctx.invoked_subcommand} {option}")


def _write_html(
    home: Home, session: str, file: str, excess: str | None, *, no_redact: bool
) -> None:
    """Write the page of a session. `excess`: a view or an option beside --html."""
    if excess is not None:
        raise click.UsageError(f"--html writes all views with all details: leave out {excess}")
    from harken.cli.commands.view.html import write_html

    write_html(home, session, file, no_redact=no_redact)


def view(
    name: str, follow: Callable[..., PrintEvents] | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a view of a function, which gets the viewer, `as_json` and its own options.

    `follow` gets the same and returns the function that prints new events, for `--follow`.
    """

    def make(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def opened(session: str, /, home: Home, **options: Any) -> None:
            if follow is not None and options.pop("follow"):
                follow_session(home, session, lambda viewer: follow(viewer, **options))
                return
            viewer = open_viewer(home, session)
            with page_output(is_wanted=not options["as_json"]):
                function(viewer, **options)

        options = json_option(home_option(click.pass_obj(opened)))
        return command.command(name=name)(options if follow is None else follow_option(options))

    return make


def _note(text: str) -> None:
    click.echo(text, err=True)


@view("tree")
def tree_command(viewer: SessionViewer, as_json: bool) -> None:
    """Show the tree of agents and hooks, including terminated ones."""
    rows = viewer.tree()
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    for row in rows:
        print_text("  " * row.depth + _agent_line(row))


def _agent_line(row: TreeRow) -> str:
    suffix = row.agent_id if row.name != row.agent_id else ""
    model = "" if row.language_model is None else format_model_name(row.language_model)
    kind = one_line(row.template or "", 40)
    notes = [suffix, "hook" if row.place == "hook" else "", kind, model]
    if row.entries or model:  # code without messages has no counts
        notes += [format_count(row.entries, "entry", "entries")]
        notes += [format_count(row.model_calls, "model call")]
    notes += [format_count(row.verdicts, "verdict")] if row.verdicts else []
    notes += ["gone"] if row.gone else []
    notes += [one_line(format_rerun(row.rerun), 160)] if row.rerun else []
    notes += [one_line(format_origin(row.origin), 160)] if row.origin else []
    task = f"  {one_line(row.task, 60)}" if row.task else ""
    return f"{one_line(row.name, 40)}  ({', '.join(note for note in notes if note)}){task}"


def _follow_dialog(
    viewer: SessionViewer, agents: Sequence[str], drafts: bool, as_json: bool
) -> PrintEvents:
    conversation = Dialog(viewer.events, _dialog_agents(viewer, agents), drafts=drafts)

    def show(events: Sequence[Event]) -> None:
        for item in conversation.add(events):
            if item.status == "pending":
                continue  # It is returned again when hooks have decided.
            if as_json:
                print_json(item.as_json(), indent=None)
            else:
                _print_dialog_item(viewer, item.as_json())

    return show


@view("dialog", _follow_dialog)
@click.argument("agents", nargs=-1)
@drafts_option
def dialog_command(
    viewer: SessionViewer, agents: Sequence[str], drafts: bool, as_json: bool
) -> None:
    """Show the messages that AGENTS sent and received, each once.

    Without AGENTS, show those between the user and the primary agent. Calls of tools and their
    results are no messages. Answers that hooks denied are left out, since nobody received them;
    --drafts includes them.
    """
    items = viewer.extract_dialog(_dialog_agents(viewer, agents), drafts=drafts)
    if as_json:
        print_json(items)
        return
    for item in items:
        _print_dialog_item(viewer, item)
    if not items:
        _note("No messages between these agents.")


def _dialog_agents(viewer: SessionViewer, names: Sequence[str]) -> list[AgentId]:
    """Return the named agents, or those that the user talked with. Raises NameNotFound."""
    if not names:
        return find_primary_agents(viewer.events)
    return [viewer.resolve_agent(name) for name in names]


def _print_dialog_item(viewer: SessionViewer, item: Row) -> None:
    text = indent(format_dialog_text(viewer, item), "  ")
    print_text(f"{_format_speaker(item)} {text}".rstrip())
    if item.get("draft") is not None:
        print_text(f"  (draft) {indent(item['draft'], '    ')}")
    for version in item.get("versions", []):
        print_text(f"  (differs) {version['name']} heard: {indent(version['content'], '    ')}")


def _format_speaker(item: Row) -> str:
    """Return the beginning of a dialog item: its author, and the status of the text."""
    name = item.get("name") or "?"
    if item.get("trigger"):
        return "(happened)"
    if verdict := item.get("verdict"):
        subject = f"{verdict['name']}'s {_SUBJECTS[verdict['point']]}"
        return f"{name} {_VERDICTS[verdict['kind']].format(subject)}:"
    if stop := item.get("stop"):
        return f"{name} (turn stopped, {stop}):"
    status = " by ".join(filter(None, [item.get("status"), item.get("hook_name")]))
    if status and item["status"] != "rewritten":
        status = f"draft, {status}"
    return f"{name} ({status}):" if status else f"{name}:"


def format_dialog_text(viewer: SessionViewer, item: Row) -> str:
    """Return the text of a dialog item without the label that its listener got."""
    names = viewer.events.names.all_names(item.get("agent_id"))
    return strip_label(item["content"], names)


def _follow_perspective(viewer: SessionViewer, agent: str | None, as_json: bool) -> PrintEvents:
    return print_perspective(viewer, _resolve_agent(viewer, agent), as_json=as_json)


@view("perspective", _follow_perspective)
@click.argument("agent", required=False)
def perspective_command(viewer: SessionViewer, agent: str | None, as_json: bool) -> None:
    """Show the full perspective of AGENT: inputs, thinking, actions and answers."""
    agent_id = _resolve_agent(viewer, agent)
    if as_json:
        print_json([moment.as_json() for moment in perspective(viewer.events, agent_id)])
    else:
        print_text(viewer.extract_agent_perspective(agent_id))


def _resolve_agent(viewer: SessionViewer, name: str | None) -> AgentId:
    """Return the named agent, or the only one; hooks do not count. Raises NameNotFound."""
    if name is not None:
        return viewer.resolve_agent(name)
    agents = [row for row in viewer.tree() if row.place != "hook"]
    if len(agents) != 1:
        names = ", ".join(row.name for row in agents[:_LISTED_AGENTS])
        suffix = ", ..." if len(agents) > _LISTED_AGENTS else ""
        raise click.UsageError(f"no agent given; existing agents: {names or 'none'}{suffix}")
    return agents[0].agent_id


@view("transcript")
@click.argument("agent", required=False)
def transcript_command(viewer: SessionViewer, agent: str | None, as_json: bool) -> None:
    """Show the full transcript of AGENT, with ids and links."""
    entries = transcript(viewer.events, _resolve_agent(viewer, agent))
    if as_json:
        print_json([viewer.raw(entry) for entry in entries])
        return
    for entry in entries:
        print_text(format_entry(entry))


@view("flow")
@click.argument("message")
def flow_command(viewer: SessionViewer, message: str, as_json: bool) -> None:
    """Show the messages that led to MESSAGE, oldest first."""
    id_ = viewer.resolve_message(message)
    _events(viewer, trace(viewer.events, id_), as_json=as_json)
    if _is_answer(viewer, id_):
        look = command_prefix("view", click.get_current_context().obj, "context", id_)
        _note(f"The source of an answer is its full context: `{look}` shows it.")


def _is_answer(viewer: SessionViewer, id_: MessageId) -> bool:
    """Whether a model wrote this message; then its source is not printed."""
    return any(isinstance(event, LlmResponse) and event.entry == id_ for event in viewer.events)


@view("refs")
@click.argument("message")
def refs_command(viewer: SessionViewer, message: str, as_json: bool) -> None:
    """Show the agents that received MESSAGE, or a text derived from it."""
    hops = hearers(viewer.events, viewer.resolve_message(message))
    if as_json:
        print_json([hop.as_json() for hop in hops])
        return
    for hop in hops:
        how = "changed" if hop.differs else "itself" if hop.via == "substance" else "as part of"
        text = one_line(hop.content)
        print_text(f"{hop.message_id} {hop.name} ({how}, hop {hop.hops}): {text}")
    if not hops:
        _note("No agent received it.")


@view("context")
@click.argument("request")
def context_command(viewer: SessionViewer, request: str, as_json: bool) -> None:
    """Show the exact messages of a model request.

    REQUEST is the id of the request or of its response; the name of an agent means its last
    request. "+" marks messages that are new since the previous request of the agent, "-" messages
    that were removed. The JSON includes the schemas of tools.
    """
    view = viewer.context(_resolve_request(viewer, request))
    if as_json:
        print_json(view.as_json())
        return
    name = viewer.events.names.latest_name(view.agent_id)
    print_text(
        f"{view.request}: {name} asked {view.model} with "
        f"{format_count(len(view.messages), 'message')}"
    )
    if evidence := format_evidence(view.evidence, view.missing):
        print_text(evidence)
    if view.is_damaged:
        _note("The hash of these messages differs from the logged hash of the request.")
    if view.broken_by is not None:
        _note(
            f"The cached prefix ends after {format_count(view.kept, 'message')}: "
            f"{view.broken_by} changed since {view.previous}."
        )
    for row in view.messages:
        print_text(format_context_message(row))
    for row in view.dropped:
        print_text(format_context_message(row, "-"))
    print_text(format_call_options(view))


def _resolve_request(viewer: SessionViewer, name: str) -> MessageId:
    """Return the named message, or the last model call of the named agent."""
    try:
        return viewer.resolve_message(name)
    except NameNotFound as error:
        try:
            agent_id = viewer.resolve_agent(name)
        except NameNotFound as cause:
            raise (error if cause.kind == "agent" else cause) from None
    requests = list(select(viewer.events, event_type="llm_request", agent_id=agent_id))
    if not requests:
        raise ConfigError(f"{name} has no model requests")
    return requests[-1].message_id


@view("timeline")
def timeline_command(viewer: SessionViewer, as_json: bool) -> None:
    """Show all events in order, with a column for each agent."""
    view = viewer.timeline()
    if as_json:
        print_json(view.as_json())
        return
    for line in iter_timeline_lines(view, columns(_WIDE)):
        print_text(line)


@view("hooks")
@click.option("--all", "all_", is_flag=True, help="Include OK verdicts.")
def hooks_command(viewer: SessionViewer, all_: bool, as_json: bool) -> None:
    """Show hooks, their verdicts, and the effects.

    For each hook: the agent that installed it, its removal, comments, denials, rewrites and
    failures. OK verdicts are only counted.

    With --json all verdicts are included, and a row for each rewritten text or call.
    """
    rows = hook_rows(viewer.events)
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    verdicts = [row for row in rows if isinstance(row, VerdictRow)]
    outcome_ids = {outcome.message_id for row in verdicts for outcome in row.outcomes}
    fine = sum(row.kind == "ok" for row in verdicts)
    for row in rows:
        is_shown_before = isinstance(row, Intervention) and row.became_id in outcome_ids
        if is_shown_before or (row.kind == "ok" and not all_):
            continue
        for line in iter_hook_lines(row):
            print_text(line)
    if fine and not all_:
        print_text(f"{format_count(fine, 'verdict')} OK: shown with --all")
    if not rows:
        _note("No hooks, and no rewrites.")


@view("raw")
@click.option("--type", "type_", metavar="EVENT_TYPE", help="Filter by type of event.")
@click.option("--agent", metavar="AGENT", help="Filter by agent.")
@click.option(
    "--role",
    type=click.Choice(["system", "user", "assistant", "tool"]),
    help="Filter entries by role.",
)
@click.option("--link", metavar="MESSAGE", help="Filter by a message that events refer to.")
def raw_command(
    viewer: SessionViewer,
    type_: str | None,
    agent: str | None,
    role: str | None,
    link: str | None,
    as_json: bool,
) -> None:
    """Show the events, one per line; with --json in full."""
    types = dict.fromkeys(map(event_type, viewer.events))
    if type_ is not None and type_ not in types:
        raise NameNotFound("event type", type_, types)
    agent_id = viewer.resolve_agent(agent) if agent is not None else None
    link = viewer.resolve_message(link) if link is not None else None
    events = viewer.events
    selected = [*select(events, event_type=type_, agent_id=agent_id, role=role, link=link)]
    if not selected:
        _note("No event matches.")
    _events(viewer, selected, as_json=as_json)


def _events(viewer: SessionViewer, events: Sequence[Event], *, as_json: bool) -> None:
    if as_json:
        print_json([viewer.raw(event) for event in events])
        return
    for event in events:
        print_text(format_event(viewer, event))
