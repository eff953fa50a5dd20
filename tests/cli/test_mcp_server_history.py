"""The tools of `harken mcp-server` for history: search, sessions, conversations, commits, `ask`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli
from tests.mcp_kit import run
from tests.mcp_server_kit import McpPeer, mcp_server

SCRIPT = """\
rules:
  - pattern: break it
    calls: [{{bash: {{command: 'touch {marker}'}}}}]
  - pattern: long
    answer: "{long}"
  - pattern: why
    answer: Because the seal was worn.
  - answer: "I took the \\e[31mred kettle."
"""


@pytest.fixture
def kettle(cli: Cli, tmp_path: Path) -> Cli:
    """A home with a session that has commits, and a configured model."""
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.format(marker=tmp_path / "marker", long="word " * 6000))
    cli.home.mkdir(mode=0o700)
    (cli.home / "config.toml").write_text(f'model = "scripted:{script}"\npermission = "all"\n')
    cli.ok("chat", "-p", "Which kettle?", "--name", "kettle", "--as", "ann", "--sandbox", "off")
    return cli


def test_earlier_sessions_are_found_and_shown(kettle: Cli) -> None:
    async def talk(peer: McpPeer) -> None:
        hit = await peer.ok("search", query="kettle", kind="prompt")
        assert "kettle  " in hit
        assert hit.endswith("    Which kettle?")
        ctx = hit.split()[0]
        assert (await peer.ok("sessions", text="kettle")).startswith("kettle  ")
        text = await peer.ok("conversation", session="kettle")
        assert "Which kettle?" in text
        assert r"I took the \x1b[31mred kettle." in text, "a transcript is data"
        assert "\x1b" not in text
        assert "Which kettle?" in await peer.ok("conversation", session=ctx)
        fields = await peer.ok("context", ctx="kettle")
        assert f"id: {ctx}" in fields
        assert "principal: ann" in fields
        assert (await peer.ok("context_log", ctx=ctx)).startswith(ctx)
        assert (await peer.ok("context_log")).startswith(ctx)
        assert "pass a ctx" in await peer.refused("context")
        for tool, arguments, reason in (
            ("search", {"query": "-"}, "no word"),
            ("search", {"query": "x", "runtime": "none"}, "runtime 'none' not found"),
            ("search", {"query": "x", "since": "soon"}, "not a time"),
            ("search", {"query": "x", "limit": 0}, "limit"),
            ("sessions", {"offset": -1}, "offset"),
            ("conversation", {"session": "nope"}, "'nope' not found"),
            ("conversation", {"session": "/etc/passwd"}, "/etc/passwd"),
            ("context", {"ctx": "ctx-00"}, "not found"),
        ):
            assert reason in await peer.refused(tool, **arguments), (tool, arguments)

    _talk(kettle, talk)


def test_an_earlier_agent_answers_in_a_branch(kettle: Cli, tmp_path: Path) -> None:
    log = kettle.home / "sessions" / "kettle.jsonl"
    before = log.read_bytes()

    async def talk(peer: McpPeer) -> None:
        answer = await peer.ok("ask", session="kettle", question="But why?")
        assert answer.startswith("Because the seal was worn.\n\n(session session_")
        branch = answer.rpartition("(session ")[2].rstrip(")")
        again = await peer.ok("ask", session=branch, question="why again?", at="-1")
        assert again.startswith("Because the seal was worn.")
        assert "red kettle" in await peer.ok("context_log", ctx=branch)
        long = await peer.ok("ask", session="kettle", question="a long one")
        assert len(long) < 21_000
        assert "more characters: conversation with session=session_" in long
        assert "the question is empty" in await peer.refused("ask", session="kettle", question=" ")
        assert "not found" in await peer.refused("ask", session="nope", question="why?")
        assert "message '99' not found" in await peer.refused(
            "ask", session="kettle", question="why?", at="99"
        )
        assert "provider" in await peer.refused(
            "ask", session="kettle", question="why?", model="nope/x"
        )
        await peer.call("ask", session="kettle", question="break it")
        assert not (tmp_path / "marker").exists(), "no user approved it"
        (kettle.home / "config.toml").unlink()
        refusal = await peer.refused("ask", session="kettle", question="why?")
        assert refusal.startswith("no model configured")

    _talk(kettle, talk)
    assert log.read_bytes() == before, "the session that is asked does not change"


def test_a_long_conversation_is_read_page_by_page(cli: Cli, tmp_path: Path) -> None:
    words = " ".join(f"w{number}" for number in range(5_000))
    script = tmp_path / "script.yaml"
    script.write_text(f"rules:\n  - answer: {json.dumps(words)}\n")
    cli.ok(
        *("chat", "--model", f"scripted:{script}", "-p", "Count.", "--name", "long"),
        *("--sandbox", "off"),
    )

    async def talk(peer: McpPeer) -> None:
        text, offset = "", 0
        while True:
            page = await peer.ok("conversation", session="long", full=True, offset=offset)
            assert len(page) < 21_000
            head, _, tail = page.rpartition("(continue with offset=")
            if not head:
                break
            text += f"{head}\n"
            offset = int(tail.rstrip(")"))
        shown = f"{text}{page}".split()
        assert [word for word in words.split() if word not in {*shown}] == []
        assert "the text ends before" in await peer.ok("conversation", session="long", offset=10**8)

    _talk(cli, talk)


def test_a_line_of_code_is_explained(cli: Cli, tmp_path: Path) -> None:
    repository = Repository.create(cli.home.parent)
    session = Session(repository).ask("Add a total for orders")
    session.write("a.py", "def total():\n    return 1\n", "Totals \x1b[31mare one.")
    cli.ok("import", session.save(tmp_path))
    repository.commit("Add totals", a_py="def total():\n    return 1\n")

    async def talk(peer: McpPeer) -> None:
        answer = await peer.ok("why", target="a.py:2")
        assert answer.startswith("a.py:2  return 1\n")
        assert "asked   Add a total for orders" in answer
        assert r"reason  Totals \x1b[31mare one." in answer
        assert "\x1b" not in answer
        folder = str(repository.folder)
        function = await peer.ok("why", target="a.py:total", folder=folder)
        assert function.startswith("a.py:total\n")
        assert "asked   Add a total for orders" in function
        assert "Totals" in await peer.ok("why", target="a.py:2", full=True)
        assert "diff cannot be passed" in await peer.refused("why", target="-")
        assert "out of range" in await peer.refused("why", target="a.py:9")
        assert "no such folder" in await peer.refused("why", target="a.py:1", folder="none")

    _talk(cli, talk)


def _talk(cli: Cli, talk: Callable[[McpPeer], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with mcp_server(cli.home) as peer:
            await talk(peer)

    run(connected())
