"""The real clients, run with and without Harken, against a fake provider."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.cli.commands.run import QUIET
from harken.context.commit_content import read_entries
from harken.context.materialize import select_commits
from harken.core.commits import CommitId
from harken.formats.base import ConversationEntry
from harken.store.base import StoredCommit
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import HARKEN
from tests.clients.kit import LAB_PY, TIMEOUT_S, lab

Json = dict[str, Any]
ASK = "ASKCTX"
"""In a prompt: the model lets a shell ask `harken context current`."""
ARGUMENTS = {
    "claude": ["-p", "--dangerously-skip-permissions"],
    "codex": ["exec", "--skip-git-repo-check"],
}


@dataclass(frozen=True)
class Ran:
    """The result of a client run."""

    code: int
    out: str
    err: str
    requests: list[Json]
    """The bodies that the provider was sent, those of the main conversation's turns among them."""


@dataclass
class Place:
    """A home for a client and for Harken on this machine."""

    client: str
    home: Path

    def run(self, *arguments: str, recorded: bool = True, prompt: str = "") -> Ran:
        """Run the client once with its provider."""
        binary = lab() / "npm" / self.client / "node_modules" / ".bin" / self.client
        command = [str(binary), *ARGUMENTS[self.client], *arguments, *([prompt] if prompt else [])]
        if recorded:
            command = [str(HARKEN), "run", "--", *command]
        for folder in ("work", "tmp"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "--quiet", self.home / "work"], check=True)
        log = self.home / "requests.jsonl"
        log.write_bytes(b"")
        with _provider(log, self.home / "work", self.client, self.home) as environ:
            result = subprocess.run(
                command,
                cwd=self.home / "work",
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        bodies = [log_entry["body"] for log_entry in entries if log_entry["protocol"]]
        return Ran(result.returncode, result.stdout, result.stderr, bodies)

    def commits(self) -> list[StoredCommit]:
        """Return all commits except superseded ones, in order of creation."""
        with self.store() as store:
            stored = [store.commits([name])[name] for name in store.newest_commits(1000)][::-1]
        return [candidate for candidate in stored if "superseded" not in candidate.notes.labels]

    def main(self) -> list[StoredCommit]:
        """Return the commits of the main conversation."""
        return [candidate for candidate in self.commits() if "/" not in candidate.commit.principal]

    def entries(self, ctx: CommitId) -> list[ConversationEntry]:
        """Return the materialized messages of a commit."""
        with self.store() as store:
            return read_entries(store, select_commits(store, ctx, "compaction"))

    @contextmanager
    def store(self) -> Iterator[SqliteStore]:
        store = SqliteStore(self.home / "harken" / "store.db")
        try:
            yield store
        finally:
            store.close()


@contextmanager
def _provider(log: Path, work: Path, client: str, home: Path) -> Iterator[dict[str, str]]:
    """Run the fake provider. Yield the environment of a client that uses it."""
    sys.path.insert(0, str(LAB_PY.parent))
    try:
        clients, fake_api, script = map(importlib.import_module, ("clients", "fake_api", "script"))
    finally:
        sys.path.remove(str(LAB_PY.parent))
    ask = f"'{sys.executable}' -m harken context current"
    ask = f"for i in 1 2 3 4 5; do {ask} > told; test -s told && break; done"  # a busy machine
    script.SCRIPT[ASK] = (script.SHELL, [{"command": ask}])
    with fake_api.FakeAPI(log, work) as api:
        environ = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        yield {
            **environ,
            "HOME": str(home),
            "HARKEN_HOME": str(home / "harken"),
            "TMPDIR": str(home / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HTTPS_PROXY": api.url,
            "NO_PROXY": "127.0.0.1",
            **dict.fromkeys(QUIET, "1"),
            **clients.CLIENTS[client].configure(home, api.url),
        }


def in_request(body: Json) -> list[tuple[str, str]]:
    """Return the parts of a Claude Code or Codex request as pairs.

    Omits the client's context: reminders, system messages, instructions.
    """
    if "input" in body:
        return [pair for item in body["input"] for pair in _in_item(item)]
    parts = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        parts += [_in_block(message["role"], block) for block in blocks]
    return [pair for pair in parts if pair[0] != "system" and not _is_present(pair[1])]


def in_entries(entries: Sequence[ConversationEntry], client: str) -> list[tuple[str, str]]:
    """Return the parts of a conversation, as `in_request` does."""
    if client == "codex":
        responses = importlib.import_module("harken.formats.providers.openai_responses")
        return [pair for item in responses.build_items(entries) for pair in _in_item(item)]
    natives = importlib.import_module("harken.formats.runtimes.registry")
    return in_request(
        {"messages": natives.find_runtime_format(client).build_resume_request(entries)}
    )


def _in_item(item: Json) -> list[tuple[str, str]]:
    match item:
        case {"type": "function_call", "call_id": id_, "name": name, "arguments": given}:
            return [("call", f"{id_} {name} {json.loads(given)}")]
        case {"type": "function_call_output", "call_id": id_, "output": output}:
            return [("result", f"{id_} {output}")]
        case {"type": "reasoning", "encrypted_content": hidden}:
            return [("thought", str(hidden))]
        case {"role": "user" | "assistant" as role, "content": list(blocks)}:
            pairs = [(str(role), str(block.get("text"))) for block in blocks]
            return [pair for pair in pairs if not _is_present(pair[1])]
    return []


def _in_block(role: str, block: Json) -> tuple[str, str]:
    match block:
        case {"type": "tool_use", "id": id_, "name": name, "input": given}:
            return "call", f"{id_} {name} {given}"
        case {"type": "tool_result", "tool_use_id": id_, "content": content}:
            texts = content if isinstance(content, str) else [b.get("text") for b in content]
            return "result", f"{id_} {texts} {bool(block.get('is_error'))}"
        case {"type": "thinking", "thinking": thought, "signature": signature}:
            return "thought", f"{thought} {signature}"
    return role, str(block.get("text", "")).strip()


def _is_present(text: str) -> bool:
    marks = ("<system-reminder>", "<environment_context>", "<subagents>", "No response requested.")
    return text.lstrip().startswith(marks)
