"""Real clients of `harken mcp-server`: they file tickets with the commits of their turns.

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

ATTEMPTS = 3
"""On a busy machine the recording may have no commit when the server asks for it."""
CREATE, CLAIM, SHOW = "FILETICKET", "CLAIMTICKET", "LISTTICKETS"


@pytest.fixture(autouse=True)
def tool_calls() -> None:
    """Let the fake model call tools of the server."""
    sys.path.insert(0, str(LAB_PY.parent))
    try:
        script: Any = importlib.import_module("script")
    finally:
        sys.path.remove(str(LAB_PY.parent))
    for keyword, tool, arguments in (
        (CREATE, "ticket_create", {"title": "The lid rattles"}),
        (CLAIM, "ticket_claim", {}),
        (SHOW, "ticket_list", {}),
    ):
        script.SCRIPT[keyword] = ((f"mcp__harken__{tool}", tool), [arguments])


@pytest.fixture
def claude(tmp_path: Path) -> Place:
    """A place for Claude Code, with the server as users add it: `claude mcp add harken -- ...`."""
    server = {"command": str(HARKEN), "args": ["mcp-server"], "alwaysLoad": True}
    servers = {"harken": server}  # The fake model does not search for tools.
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return Place("claude", tmp_path)


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


def check_context(place: Place, ticket: Ticket) -> None:
    """Check that a ticket has the commit of the turn that called the tool."""
    context_id = CommitId(ticket.created.context_id)
    with place.store() as store:
        stored = store.commits([context_id])[context_id]
    assert ticket.created.author == stored.commit.principal
    entries = place.entries(context_id)
    [name] = [call.function.name for call in entries[-1].message.tool_calls or ()]
    assert name.endswith("ticket_create")
    texts = [text_of(entry.message.content) for entry in entries]
    assert any(f"{CREATE} please" in text for text in texts), "the request that led to the ticket"


@needs("claude")
@pytest.mark.req("S2-42", "S2-43")
def test_claude_code_files_a_ticket_with_the_commit_of_its_turn(claude: Place) -> None:
    for _ in range(ATTEMPTS):
        result = talk(claude, f"{CREATE} please")
        ticket = tickets(claude)[-1]
        assert result == f"{ticket.id[:16]} [open] The lid rattles"
        if ticket.created.context_id:
            break
    check_context(claude, ticket)


@needs("claude")
@pytest.mark.full
def test_claude_code_that_is_not_recorded_lists_and_claims_tickets(claude: Place) -> None:
    talk(claude, f"{CREATE} please", recorded=False)
    assert "p2 task: The lid rattles" in talk(claude, f"{SHOW} please", recorded=False)
    talk(claude, f"{CLAIM} please", recorded=False)
    [ticket] = tickets(claude)
    assert (ticket.state.status, ticket.context_id) == ("in_progress", "")
    assert ticket.state.assignee == ticket.created.author


@needs("codex")
@pytest.mark.full
@pytest.mark.req("S2-42", "S2-43")
def test_codex_files_a_ticket_with_the_commit_of_its_turn(tmp_path: Path) -> None:
    settings = {
        "command": json.dumps(str(HARKEN)),
        "args": '["mcp-server"]',
        "env_vars": '["HARKEN_CONTEXT_SOCKET", "HARKEN_HOME"]',
        "required": "true",  # Its first request does not wait for a slow start otherwise.
        "startup_timeout_sec": "60",
    }
    options = [word for key, value in settings.items() for word in _config(key, value)]
    codex = Place("codex", tmp_path)
    for _ in range(ATTEMPTS):
        assert codex.run(*options, prompt=f"{CREATE} please").code == 0
        ticket = tickets(codex)[-1]
        if ticket.created.context_id:
            break
    check_context(codex, ticket)


def _config(key: str, value: str) -> tuple[str, str]:
    return "-c", f"mcp_servers.harken.{key}={value}"
