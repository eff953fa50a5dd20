"""The real clients, recorded by the proxy and imported from their files: one session.

Source: the clients and the fake provider of the lab; see `tests.clients.kit`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import start
from tests.clients.kit import needs
from tests.clients.test_proxy import Lab, lab


def run_json(place: Lab, *words: str) -> Any:
    """Return the output of a command in the home of the proxy."""
    result = start(place.home / "harken", *words, "--json", HOME=str(place.home))
    assert result.returncode == 0, result
    return json.loads(result.stdout)


def check(place: Lab, files: Path, runtime: str) -> None:
    """Import the files. Check that each response is counted once, in one session."""
    before = run_json(place, "stats")
    home = place.home / "harken"
    assert start(home, "import", str(files), HOME=str(place.home)).returncode == 0
    after = run_json(place, "stats")
    for name in ("responses", "input_tokens", "output_tokens"):
        assert after["usage"][name] == before["usage"][name]
    for name in ("prompts", "responses", "tool_calls"):
        assert after["amplification"][name] == before["amplification"][name]
    assert after["compactions"]["compactions"] == before["compactions"]["compactions"]
    rows = run_json(place, "sessions")
    [row] = [row for row in rows if row["logs"]]
    assert (row["runtime"], bool(row["sources"])) == (runtime, True)
    log, name = row["logs"][0], row["session"]
    shown = [start(home, "view", given, "tree").stdout for given in (log, name)]
    assert shown[0] == shown[1]
    native = name.partition(":")[2]
    assert start(home, "view", native, "tree").stdout == shown[0]


@needs("claude")
def test_claude_code_is_one_session(tmp_path: Path) -> None:
    with lab("claude", tmp_path) as place:
        place.ask("RUNTOOL please")
        place.go_on("SUBAGENT please")
        place.go_on("/compact")
        place.go_on("And now?")
    check(place, tmp_path / ".claude/projects", "claude")
    assert len(run_json(place, "sessions")) == 1


@needs("codex")
def test_codex_is_one_session(tmp_path: Path) -> None:
    with lab("codex", tmp_path) as place:
        place.ask("RUNTOOL please")
        place.go_on("SUBAGENT please")
        place.go_on("And now?", "-c", "model_auto_compact_token_limit=1000")
    check(place, tmp_path / ".codex/sessions", "codex")


@pytest.mark.full
@needs("opencode")
def test_opencode_is_one_session(tmp_path: Path) -> None:
    with lab("opencode", tmp_path) as place:
        place.ask("RUNTOOL please")
    check(place, tmp_path / ".local/share/opencode", "opencode")
