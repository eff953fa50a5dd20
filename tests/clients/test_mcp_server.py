"""Claude Code as a client of `harken mcp-server`: it files tickets with the commit of its turn.

Source: the client and the fake provider of the lab; see `tests.clients.kit`.
"""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.store.sqlite.store import SqliteStore
from harken.tickets.ticket import Ticket
from harken.tickets.tracker import Tickets
from tests.cli.kit import HARKEN
from tests.clients.kit import LAB_PY, needs
from tests.clients.live_kit import Place

CREATE, CLAIM, SHOW = "FILETICKET", "CLAIMTICKET", "LISTTICKETS"


@pytest.fixture
def claude(tmp_path: Path) -> Place:
    """A place for Claude Code, with the server as users add it: `claude mcp add harken -- ...`."""
    place = Place("claude", tmp_path)
    (tmp_path / "work").mkdir()
    server = {"command": str(HARKEN), "args": ["mcp-server"], "alwaysLoad": True}
    servers = {"harken": server}  # The fake model does not search for tools.
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    sys.path.insert(0, str(LAB_PY.parent))
    try:
        script: Any = importlib.import_module("script")
    finally:
        sys.path.remove(str(LAB_PY.parent))
    script.SCRIPT[CREATE] = (("mcp__harken__ticket_create",), [{"title": "The lid rattles"}])
    script.SCRIPT[CLAIM] = (("mcp__harken__ticket_claim",), [{}])
    script.SCRIPT[SHOW] = (("mcp__harken__ticket_list",), [{}])
    return place


def talk(place: Place, prompt: str, *, recorded: bool = True) -> str:
    """Send a prompt; return the result of the tool that the model called."""
    config = str(place.home / "mcp.json")
    ran = place.run("--mcp-config", config, "--strict-mcp-config", prompt=prompt, recorded=recorded)
    assert (ran.code, ran.err) == (0, "")
    body = max(ran.requests, key=lambda request: len(request["messages"]))
    blocks = [block for message in body["messages"] for block in _blocks(message["content"])]
    (result,) = [block for block in blocks if block["type"] == "tool_result"]
    return " ".join(block["text"] for block in _blocks(result["content"]))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def tickets(place: Place) -> list[Ticket]:
    with closing(SqliteStore(place.home / "harken" / "store.db")) as store:
        return Tickets(store, "reader").list_tickets()


@needs("claude")
@pytest.mark.req("S2-42", "S2-43")
def test_claude_code_files_a_ticket_with_the_commit_of_its_turn(claude: Place) -> None:
    result = talk(claude, f"{CREATE} please")
    [ticket] = tickets(claude)
    assert result == f"{ticket.id[:16]} [open] The lid rattles"
    context_id = CommitId(ticket.created.context_id)
    with claude.store() as store:
        stored = store.commits([context_id])[context_id]
    assert ticket.created.author == stored.commit.principal
    entries = claude.entries(context_id)
    assert [call.function.name for call in entries[-1].message.tool_calls or ()] == [
        "mcp__harken__ticket_create"
    ]
    texts = [text_of(entry.message.content) for entry in entries]
    assert any(f"{CREATE} please" in text for text in texts), "the request that led to the ticket"


@needs("claude")
@pytest.mark.full
def test_claude_code_that_is_not_recorded_lists_and_claims_tickets(claude: Place) -> None:
    talk(claude, f"{CREATE} please", recorded=False)
    assert "p2 task: The lid rattles" in talk(claude, f"{SHOW} please", recorded=False)
    talk(claude, f"{CLAIM} please", recorded=False)
    [ticket] = tickets(claude)
    assert (ticket.state.status, ticket.context_id) == ("in_progress", "")
    assert ticket.state.assignee == ticket.created.author
