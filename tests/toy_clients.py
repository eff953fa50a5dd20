"""Toy clients: executables that find a session like their client does, and send its messages.

They are called and configured as the real clients, read sessions with Harken, and send requests
to the configured provider. They test placing and verifying sessions with real
processes and files on any machine; the real clients are in `tests/clients`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Literal, TypeAlias

from harken.formats.runtimes.registry import find_runtime_format
from tests.unit.formats.native_kit import read_context, read_steps

Manner: TypeAlias = Literal["faithful", "forgetful", "deaf", "slow", "wordy", "confused"]
ROOT = Path(__file__).parents[1]
SESSION_PATHS = {
    "claude": "{CLAUDE_CONFIG_DIR:.claude}/projects/*/{session}.jsonl",
    "codex": "{CODEX_HOME:.codex}/sessions/*/*/*/rollout-*-{session}.jsonl",
    "gemini": ".gemini/tmp/*/chats/session-*-{session:.8}.jsonl",
    "opencode": ".local/share/opencode/{session}.json",
}
PATHS = {"claude": "messages", "codex": "responses", "pi": "chat/completions"}
FIELDS = {"codex": "input", "gemini": "contents"}


def install(folder: Path, runtime: str, manner: Manner = "faithful") -> Path:
    """Write a toy client into a folder. Return the folder for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / runtime
    roots = [str(ROOT / "src"), str(ROOT)]
    program.write_text(
        f"#!{sys.executable}\n"
        f"import sys\n"
        f"sys.path[:0] = {roots!r}\n"
        f"from tests.toy_clients import main\n"
        f"main({runtime!r}, {manner!r})\n"
    )
    program.chmod(0o755)
    return folder


def main(runtime: str, manner: str) -> None:
    """Run the client."""
    home, words = Path(os.environ["HOME"]), sys.argv[1:]
    (home / "called.json").write_text(
        json.dumps({"words": words, "folder": str(Path.cwd()), "environ": dict(os.environ)})
    )
    if words[0] == "import":
        place = home / ".local/share/opencode"
        place.mkdir(parents=True, exist_ok=True)
        data = Path(words[1]).read_bytes()
        (place / f"{json.loads(data)['info']['id']}.json").write_bytes(data)
        return
    if manner == "deaf":
        sys.exit("I do not hear you.")
    if manner == "slow":
        time.sleep(600)
    data = find_session_file(runtime, home, words).read_bytes()
    ask(runtime, home, build_conversation(runtime, data, manner), words)
    print("done")


def find_session_file(runtime: str, home: Path, words: list[str]) -> Path:
    """Return the session file that the command line names."""
    name = (
        words[words.index("--resume" if "--resume" in words else "resume") + 1]
        if ("--resume" in words or "resume" in words)
        else words[words.index("--session") + 1]
    )
    if runtime == "pi":
        return Path(name)
    pattern = re.sub(
        r"\{([A-Z_]+):([^}]*)\}", lambda m: os.environ.get(m[1], m[2]), SESSION_PATHS[runtime]
    )
    pattern = pattern.format(session=name).removeprefix(f"{home}/")
    (match,) = home.glob(pattern)
    return match


def build_conversation(runtime: str, data: bytes, manner: str) -> list[dict[str, Any]]:
    """Return the messages that a client sends for a session."""
    native = find_runtime_format(runtime)
    assert native is not None
    assert native.build_resume_request is not None
    steps, reading = read_steps(native, data)
    messages = native.build_resume_request(read_context(steps, next(iter(reading.tips.values()))))
    if manner == "forgetful":
        del messages[1]
    if manner == "confused":
        messages[-1], messages[-3] = messages[-3], messages[-1]
    if manner == "wordy":
        messages.append({"role": "assistant", "content": "By the way, it rains."})
    return messages


def ask(runtime: str, home: Path, messages: list[dict[str, Any]], words: list[str]) -> None:
    """Send the prompt to the model at the configured address."""
    prompt = words[-1].removeprefix("--prompt=")
    body = {"role": "user", "content": prompt}
    if runtime == "gemini":
        body = {"role": "user", "parts": [{"text": prompt}]}  # type: ignore[dict-item]
    path = PATHS.get(runtime, "chat/completions")
    url = f"{provider_url(runtime, home)}/v1/{path}"
    if runtime == "gemini":
        url = f"{provider_url(runtime, home)}/v1beta/models/m:generateContent"
    request_body = {"tools": [{"name": "look"}], FIELDS.get(runtime, "messages"): [*messages, body]}
    request = urllib.request.Request(url, json.dumps(request_body).encode())
    with urllib.request.urlopen(request, timeout=30) as response:
        assert b"ok" in response.read()


def provider_url(runtime: str, home: Path) -> str:
    """Return the provider address of the environment or the configuration."""
    for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        if name in os.environ:
            return os.environ[name]
    files = {
        "codex": ".codex/config.toml",
        "opencode": ".config/opencode/opencode.json",
        "pi": ".pi/agent/models.json",
    }
    match = re.search(r"http://127\.0\.0\.1:\d+", (home / files[runtime]).read_text())
    assert match is not None
    return match[0]
