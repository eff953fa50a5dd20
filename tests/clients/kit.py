"""The real clients, where they are installed: what they make of a session that Harken wrote.

They are run by the lab beside the project (`shared/clients/lab.py`), isolated and on loopback. It
has them in a folder: `HARKEN_LAB`, else `lab` beside the project or beside `lab.py`. Where there is
none, tests skip and say so: nothing is ever fetched from a network here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(__file__).parents[2].parent
LAB_PY = BESIDE / "shared" / "clients" / "lab.py"
_PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "pi": "@earendil-works/pi-coding-agent",
}
TIMEOUT_S = 120


def lab() -> Path:
    """Return the folder with the clients, whether it is there or not."""
    named = os.environ.get("HARKEN_LAB")
    found = [Path(named)] if named else [BESIDE / "lab", LAB_PY.parent / "lab"]
    return next((folder for folder in found if folder.is_dir()), found[0])


def is_installed(client: str) -> bool:
    """Whether a client can be run here."""
    package = lab() / "npm" / client / "node_modules" / _PACKAGES[client]
    return LAB_PY.is_file() and (package / "package.json").is_file()


def needs(*clients: str) -> pytest.MarkDecorator:
    """Return the mark of tests that run these clients."""
    missing = [client for client in clients if not is_installed(client)]
    reason = f"not in the lab {lab()}: {', '.join(missing)}"
    return pytest.mark.skipif(bool(missing), reason=reason)


@dataclass(frozen=True)
class Verdict:
    """What a client and the strict provider make of a session."""

    accepted: bool
    reason: str | None
    lost: list[str]
    """Beginnings of texts of the file that the client did not send."""


def accept(client: str, file: Path) -> Verdict:
    """Resume a session against the strict provider."""
    code, answer, error = _run("accept", client, file)
    if answer is None:
        return Verdict(accepted=False, reason=error, lost=[])
    accepted = code == 0 and bool(answer["accepted"])
    return Verdict(accepted, answer["reason"], answer["lost"])


def sent(client: str, file: Path) -> list[dict[str, Any]]:
    """Return the messages that a client sends when it resumes a session; the prompt is the last."""
    _, answer, error = _run("sent", client, file)
    assert answer is not None, error
    messages: list[dict[str, Any]] = answer["request_messages"]
    return messages


def _run(verb: str, client: str, file: Path) -> tuple[int, dict[str, Any] | None, str]:
    options = ["--lab", str(lab()), "--timeout", str(TIMEOUT_S)]
    command = [sys.executable, str(LAB_PY), *options, verb, client, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout) if done.stdout.startswith("{") else None
    return done.returncode, answer, done.stderr.strip()[-1000:]
