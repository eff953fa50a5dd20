"""Agents read and change tickets with tools, and each change carries the agent's commit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harken.store.memory import MemoryStore
from harken.tickets.change import TicketChange
from harken.tickets.tools import ticket_tools
from harken.tickets.tracker import Tickets
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import Tool, ToolContext
from tests.cli.kit import HARKEN, Cli
from tests.unit.tickets.kit import open_tickets


class _Agent:
    """The name of an agent without a commit."""

    name = "iree"


CALLER = ToolContext(agent=_Agent(), call="msg_001")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def _call(store: MemoryStore, name: str, **arguments: Any) -> str:
    tools: dict[str, Tool] = {tool.name: tool for tool in ticket_tools(store)}
    return str(asyncio.run(tools[name].run(arguments, CALLER)))


@pytest.mark.req("S2-42")
def test_every_verb_is_a_call_of_a_tool(store: MemoryStore) -> None:
    fields = {"title": "Repair the kettle", "priority": 1, "add_labels": ["tea"]}
    created = _call(store, "ticket", operation="create", fields=fields, text="seen at noon")
    id_ = created.split()[0]
    assert created == f"{id_} [open] Repair the kettle"
    _call(store, "ticket", operation="update", ticket=id_, fields={"body": "It leaks."})
    assert _call(store, "tickets", operation="ready") == (
        f"{id_} [open] p1 task: Repair the kettle"
    )
    assert "[in_progress]" in _call(store, "ticket", operation="claim")
    _call(store, "ticket", operation="note", ticket=id_, text="The seal fits.")
    later = {"deferred_until": "2100-01-01T00:00:00Z"}
    assert "[deferred]" in _call(
        store, "ticket", operation="defer", ticket=id_, text="no seal", fields=later
    )
    _call(store, "ticket", operation="reopen", ticket=id_)
    _call(store, "ticket", operation="close", ticket=id_, text="done")
    page = _call(store, "tickets", operation="show", ticket=id_)
    assert "assignee: iree" in page
    assert "It leaks." in page
    for line in ("create: seen at noon", "note: The seal fits.", "defer: no seal", "close: done"):
        assert f"iree {line}" in page
    assert _call(store, "tickets", operation="list") == "(no tickets)"
    conditions = {"status": "closed", "label": "tea", "assignee": "iree", "text": "KETTLE"}
    assert id_ in _call(store, "tickets", operation="list", conditions=conditions)


@pytest.mark.req("S2-46")
def test_a_reviewer_files_a_finding(store: MemoryStore) -> None:
    parent = open_tickets(store).create("Rewrite the parser", TicketChange(status="review"))
    fields = {"title": "It drops lines", "type": "review_finding", "parent": parent.id[:12]}
    finding = _call(store, "ticket", operation="create", fields=fields)
    review = {"reviews": {"iree": "changes_requested"}}
    _call(store, "ticket", operation="update", ticket=parent.id, fields=review)
    listed = _call(
        store,
        "tickets",
        operation="list",
        conditions={"parent": parent.id, "type": "review_finding"},
    )
    assert finding.split()[0] in listed
    assert open_tickets(store).get(parent.id).state.reviewers == {"iree": "changes_requested"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"operation": "create"}, "needs fields with a title"),
        ({"operation": "create", "fields": {"title": " "}}, "is empty"),
        ({"operation": "create", "fields": {"title": "x", "priority": 9}}, "priority 9"),
        ({"operation": "update", "ticket": "tkt-00"}, "not found"),
        ({"operation": "note", "ticket": "ID", "text": ""}, "the note is empty"),
        ({"operation": "claim", "ticket": "ID"}, "is assigned to bob"),
        ({"operation": "defer", "ticket": "ID", "fields": {"deferred_until": "soon"}}, "soon"),
        (
            {
                "operation": "update",
                "ticket": "ID",
                "fields": {"add_attachments": ["art-" + "0" * 64]},
            },
            "not found",
        ),
    ],
)
def test_a_mistake_is_a_result_that_the_model_reads(
    store: MemoryStore, arguments: dict[str, Any], text: str
) -> None:
    id_ = Tickets(store, "bob").create("Repair the kettle", TicketChange(assignee="bob")).id
    real = {key: id_ if value == "ID" else value for key, value in arguments.items()}
    with pytest.raises(ToolError, match=text):
        _call(store, "ticket", **real)
    with pytest.raises(InvalidArguments):
        _call(store, "ticket", operation="delete")
    assert len(open_tickets(store).history(id_)) == 1


SCRIPT = """\
rules:
  - pattern: file it
    calls: [{ticket: {operation: create, fields: {title: The kettle leaks}}}]
  - pattern: from a shell
    calls: [{bash: {command: '%s ticket note tkt- seen --home %s'}}]
  - answer: Filed.
"""


@pytest.mark.req("S2-41", "S2-43")
def test_an_agent_files_a_ticket_with_its_own_commit_by_tool_and_by_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(tmp_path / "home", capsys)
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT % (HARKEN, cli.home))
    common = ("--home", cli.home)
    chat = ("chat", "--model", f"scripted:{script}", "--tickets", "--permission", "all")
    cli.ok(*chat, *common, "-p", "file it")
    [ticket] = cli.ok("ticket", "list", "--json", *common).json
    commits = {row["id"]: row for row in cli.ok("ctx", "log", "--all", "--json", *common).json}
    own = commits[ticket["created_context_id"]]
    assert (own["checkpoint"], own["principal"]) == ("turn_boundary", ticket["created_by"])
    conversation = cli.ok("ctx", "cat", own["id"], "--json", *common).json
    assert "file it" in json.dumps(conversation), "the request that led to the ticket"
    cli.ok(*chat, "--sandbox", "off", *common, "-p", "from a shell")
    history = cli.ok("ticket", "show", ticket["id"], "--json", *common).json["history"]
    assert [change["note"] for change in history] == ["", "seen"]
    assert history[1]["context_id"] not in ("", ticket["created_context_id"])
    assert history[1]["author"] == ticket["created_by"]
