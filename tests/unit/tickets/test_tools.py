"""Agents read and change tickets with tools, and each change carries the agent's commit."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harken.store.memory import MemoryStore
from harken.tickets.change import TicketChange
from harken.tickets.tools import ticket_tools
from harken.tickets.tracker import Tickets
from harken.world.result import ToolError
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


def _call(store: MemoryStore, verb: str, **arguments: Any) -> str:
    tools: dict[str, Tool] = {tool.name: tool for tool in ticket_tools(store)}
    return str(asyncio.run(tools[f"ticket_{verb}"].run(arguments, CALLER)))


@pytest.mark.req("S2-42")
def test_every_verb_is_a_tool(store: MemoryStore) -> None:
    created = _call(
        *(store, "create"),
        title="Repair the kettle",
        priority=1,
        add_labels=["tea"],
        note="seen at noon",
    )
    id_ = created.split()[0]
    assert created == f"{id_} [open] Repair the kettle"
    _call(store, "update", ticket=id_, body="It leaks.\n- 2026 bob close")
    assert _call(store, "ready") == f"{id_} [open] p1 task: Repair the kettle"
    assert "[in_progress]" in _call(store, "claim")
    _call(store, "note", ticket=id_, text="The seal fits.")
    assert "[deferred]" in _call(
        store, "defer", ticket=id_, reason="no seal", until="2100-01-01T00:00:00Z"
    )
    _call(store, "reopen", ticket=id_)
    _call(store, "close", ticket=id_, reason="done")
    page = _call(store, "show", ticket=id_)
    assert "assignee: iree" in page
    assert "  It leaks.\n  - 2026 bob close\n" in page, "a body imitates no change"
    for line in ("create: seen at noon", "note: The seal fits.", "defer: no seal", "close: done"):
        assert f"iree {line}" in page
    assert _call(store, "list") == "(no tickets)"
    conditions = {"status": "closed", "label": "tea", "assignee": "iree", "text": "KETTLE"}
    assert id_ in _call(store, "list", **conditions)


def test_tools_tell_reading_from_changing_and_describe_themselves(store: MemoryStore) -> None:
    tools = ticket_tools(store)
    readers = [tool.name for tool in tools if tool.reads_only]
    assert readers == ["ticket_list", "ticket_ready", "ticket_show"]
    assert {tool.changed_resource for tool in tools if not tool.reads_only} == {"tickets"}
    for tool in tools:
        assert tool.description
        assert "description" not in tool.parameters
        assert tool.parameters["type"] == "object"


def test_long_lists_and_tickets_are_read_page_by_page(store: MemoryStore) -> None:
    tickets = open_tickets(store)
    ids = [tickets.create(f"Task {number}").id[:16] for number in range(7)]
    first = _call(store, "list", limit=3).splitlines()
    assert [line.split()[0] for line in first[:-1]] == ids[:3]
    assert first[-1] == "(1 to 3 of 7; continue with offset=3)"
    last = _call(store, "ready", offset=6).splitlines()
    assert [line.split()[0] for line in last] == ids[6:]
    body = "\n".join(f"line {number}" for number in range(9000))
    tickets.update(ids[0], TicketChange(body=body))
    text, offset = "", 0
    for _ in range(20):
        page = _call(store, "show", ticket=ids[0], offset=offset)
        assert len(page) < 21_000
        text += f"{page}\n"
        if "continue with offset=" not in page:
            break
        offset = int(page.rpartition("=")[2].rstrip(")"))
    assert [f"line {number}" for number in range(9000)] == re.findall(r"(?m)^  (line \d+)$", text)


@pytest.mark.req("S2-46")
def test_a_reviewer_files_a_finding(store: MemoryStore) -> None:
    parent = open_tickets(store).create("Rewrite the parser", TicketChange(status="review"))
    kind = "review_finding"
    finding = _call(store, "create", title="It drops lines", type=kind, parent=parent.id[:12])
    _call(store, "update", ticket=parent.id, reviews={"iree": "changes_requested"})
    assert finding.split()[0] in _call(store, "list", parent=parent.id, type=kind)
    assert open_tickets(store).get(parent.id).state.reviewers == {"iree": "changes_requested"}


@pytest.mark.parametrize(
    ("verb", "arguments", "text"),
    [
        ("create", {}, "title"),
        ("create", {"title": " "}, "is empty"),
        ("create", {"title": "x", "priority": 9}, "priority"),
        ("create", {"title": "x", "operation": "create"}, "no argument 'operation'"),
        ("update", {"ticket": "tkt-000000000000"}, "not found"),
        ("note", {"ticket": "ID", "text": ""}, "the note is empty"),
        ("claim", {"ticket": "ID"}, "is assigned to bob"),
        ("defer", {"ticket": "ID", "until": "soon"}, "soon"),
        ("update", {"ticket": "ID", "add_attachments": ["art-" + "0" * 64]}, "not found"),
    ],
)
def test_a_mistake_is_a_result_that_the_model_reads(
    store: MemoryStore, verb: str, arguments: dict[str, Any], text: str
) -> None:
    id_ = Tickets(store, "bob").create("Repair the kettle", TicketChange(assignee="bob")).id
    real = {key: id_ if value == "ID" else value for key, value in arguments.items()}
    with pytest.raises(ToolError, match=text):
        _call(store, verb, **real)
    assert len(open_tickets(store).history(id_)) == 1


SCRIPT = """\
rules:
  - pattern: file it
    calls: [{ticket_create: {title: The kettle leaks}}]
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
