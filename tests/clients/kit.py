"""The real clients, where they are installed: what they make of a session that Harken wrote.

They are run by the lab beside the project (`shared/clients/lab.py`), isolated and on loopback. It
has them in a folder: `HARKEN_LAB`, else `lab` beside the project or beside `lab.py`. Where there is
none, tests skip and say so: nothing is ever fetched from a network here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
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
    """Return the folder of the clients, which may not exist."""
    lab_variable = os.environ.get("HARKEN_LAB")
    candidates = [Path(lab_variable)] if lab_variable else [BESIDE / "lab", LAB_PY.parent / "lab"]
    return next((folder for folder in candidates if folder.is_dir()), candidates[0])


def is_installed(client: str) -> bool:
    """Whether a client is installed."""
    package = lab() / "npm" / client / "node_modules" / _PACKAGES[client]
    return LAB_PY.is_file() and (package / "package.json").is_file()


def needs(*clients: str) -> pytest.MarkDecorator:
    """Return the mark of tests that need these clients."""
    missing = [client for client in clients if not is_installed(client)]
    reason = f"not in the lab {lab()}: {', '.join(missing)}"
    return pytest.mark.skipif(bool(missing), reason=reason)


@dataclass(frozen=True)
class Resumed:
    """The reaction of a client and of the strict provider to a session."""

    reason: str | None
    """Why it was not taken; None: it was."""
    sent: list[dict[str, Any]]
    """The messages of the request; the prompt is in the last one."""
    lost: list[str]
    """Beginnings of texts of the file that were not sent as they are."""
    model: str = ""
    """The model that the client selected."""


def resume(client: str, file: Path) -> Resumed:
    """Resume a session once against the strict provider."""
    module = _module()
    lab_module = module.Lab(lab(), TIMEOUT_S)
    try:
        turn = lab_module.resume(client, file, strict=True)
    except module.LabError as error:
        return Resumed(str(error)[-1000:], [], [])
    verdict = module.verdict(file, turn)
    if verdict["accepted"]:
        shutil.rmtree(turn.log.parents[1], ignore_errors=True)
    models = [entry["body"].get("model") for entry in turn.requests if entry["body"].get("tools")]
    return Resumed(verdict["reason"], turn.sent, verdict["lost"], next(filter(None, models), ""))


@cache
def _module() -> ModuleType:
    """Import `lab.py`, which imports its own siblings."""
    spec = importlib.util.spec_from_file_location("lab", LAB_PY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lab"] = module  # needed by its dataclasses
    sys.path.insert(0, str(LAB_PY.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(LAB_PY.parent))
    return module


def talk(client: str, home: Path, *prompts: str) -> Path:
    """Let a client hold its own conversation. Return its file.

    Keywords such as RUNTOOL in a prompt make the fake model call tools.
    """
    module = _module()
    lab_module = module.Lab(lab(), TIMEOUT_S)
    home, session, file = lab_module.home(home), None, None
    for prompt in prompts:
        turn = lab_module.turn(client, home, module.CLIENTS[client].arguments(prompt, session))
        assert turn.failure is None, turn.failure
        session, file = turn.session, turn.file
    assert isinstance(file, Path)
    return file


def programs(client: str) -> Path:
    """Return the folder of the client's program, for PATH."""
    return lab() / "npm" / client / "node_modules" / ".bin"
