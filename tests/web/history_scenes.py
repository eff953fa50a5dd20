"""A home with branches, a compaction, subagents, and a session with a fork, for tests of the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.kit import start

PRINCIPAL = "ann"
QUIET = "Say nothing. He will go away."
SPLIT, RECOVERY = "I have split the parser.", "It skips to the next statement after an error."
INSERTED, FIXED = "It inserts tokens, but two tests fail.", "It inserts tokens, and all tests pass."
SUMMARY = "The parser was split, and recovers from errors."
DOCUMENTED = "The docs describe both modules."


def harken(home: Path, *arguments: str | Path, stdin: str = "") -> str:
    """Run a command that works, as a process of its own. Return what it prints."""
    ran = start(home, *arguments, stdin=stdin, HARKEN_PRINCIPAL=PRINCIPAL)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode()


def read_json(home: Path, *arguments: str | Path) -> Any:
    """Return what a command prints as JSON."""
    return json.loads(harken(home, *arguments, "--json"))


def write_history_home(home: Path) -> None:
    """Write a demo with its fork, and a history of commits with two branches."""
    harken(home, "demo")
    harken(home, "fork", "demo", "--at", "msg_046", "--edit", QUIET, "--name", "quiet")
    harken(home, "chat", "--resume", "quiet", stdin="\n")
    split = checkpoint(home, "Split the parser.", SPLIT, "--branch", "main")
    recovery = checkpoint(home, "Recover from errors.", RECOVERY, "--branch", "main")
    inserted = checkpoint(
        home, "Insert tokens.", INSERTED, "--parent", split, "--branch", "insert", "--as", "bob"
    )
    fixed = checkpoint(
        home, "Insert tokens.", FIXED, "--parent", split, "--branch", "fixed", "--as", "bob"
    )
    harken(home, "ctx", "compact", recovery, SUMMARY, "--branch", "main")
    checkpoint(home, "Document it.", DOCUMENTED, "--branch", "main")
    harken(home, "ctx", "label", inserted, "draft")
    harken(home, "ctx", "label", fixed, "reviewed")


def checkpoint(home: Path, question: str, answer: str, *options: str) -> str:
    """Commit a question and an answer. Return the name of the commit."""
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    command = ["ctx", "checkpoint", "-", *options, "--session", "work", "--json"]
    name: str = json.loads(harken(home, *command, stdin=json.dumps(messages)))["id"]
    return name
