"""The real clients go on with each other's conversations, and `harken verify` shows what they send.

The conversations are held by the real clients, too, with a fake model.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from harken.capture.resume.clients import RUNTIMES
from tests.cli.kit import SCRIPT, Ran, start
from tests.clients import kit

PROMPTS = ("PARALLEL",)


class Desk:
    """A home of Harken's, and of somebody who runs clients."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.person = folder, folder / "harken", folder / "person"
        self.path = os.environ["PATH"]

    def __call__(self, *arguments: str | Path) -> Ran:
        variables = dict.fromkeys(("CLAUDE_CONFIG_DIR", "CODEX_HOME"), "")
        environ = {"HOME": str(self.person), "PATH": self.path, **variables}
        ran = start(self.home, *arguments, **environ)
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def ok(self, *arguments: str | Path) -> Ran:
        ran = self(*arguments)
        assert ran.code == 0, ran
        return ran

    def talk(self, runtime: str) -> str:
        """Hold a conversation in a client, or in Harken; return its commit."""
        if runtime != "harken":
            file = kit.talk(runtime, self.folder / runtime, *PROMPTS)
            row = json.loads(self.ok("import", file, "--json").out)
            return str(row["tips"][0]["ctx"])
        script = self.folder / "script.yaml"
        script.write_text(SCRIPT)
        self.ok("chat", "--model", f"scripted:{script}", "-p", "make Ann")
        return str(json.loads(self.ok("ctx", "log", "-n", "1", "--json").out)[0]["id"])

    def having(self, client: str) -> Desk:
        """Put a client on the PATH."""
        self.path = f"{kit.programs(client)}{os.pathsep}{self.path}"
        return self


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def pair(source: str, target: str, *marks: pytest.MarkDecorator) -> object:
    clients = {source, target} - {"harken"}
    return pytest.param(source, target, marks=[kit.needs(*sorted(clients)), *marks])


PAIRS = [
    pair("claude", "codex"),
    pair("codex", "claude"),
    pair("pi", "claude"),
    pair("harken", "claude"),
    pair("harken", "codex"),
    pair("codex", "pi", pytest.mark.full),
    pair("claude", "gemini", pytest.mark.full),
    pair("gemini", "claude", pytest.mark.full),
    pair("claude", "opencode", pytest.mark.full),
]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_conversation_goes_on_in_another_client(desk: Desk, source: str, target: str) -> None:
    """What is written is accepted by the strict provider, and nothing is lost; `verify` says so.

    And it may go on from a message in the midst of it.
    """
    ctx = desk.talk(source)
    desk.having(target)
    if target != "opencode":
        ran = desk.ok("resume", ctx, "--client", target, "--print")
        resumed = kit.resume(target, Path(ran.err.splitlines()[-1].partition(" in ")[2]))
        assert resumed.reason is None
        said = json.dumps(resumed.sent)  # texts of one side that meet become one
        assert [text for text in resumed.lost if json.dumps(text)[1:-1] not in said] == []
    found = json.loads(desk.ok("verify", ctx, "--client", target, "--at", "-2", "--json").out)
    assert found["same"]
    assert found["messages"]


@pytest.mark.parametrize("runtime", [pytest.param(one, marks=kit.needs(one)) for one in ("codex",)])
def test_a_message_that_is_taken_out_of_the_file_is_seen(desk: Desk, runtime: str) -> None:
    ctx = desk.talk("harken")
    programs = desk.folder / "bin"
    programs.mkdir()
    real = kit.programs(runtime) / runtime
    (programs / runtime).write_text(
        f"#!{sys.executable}\n"
        f"import os, sys\n"
        f"from pathlib import Path\n"
        f"for file in Path(os.environ['CODEX_HOME']).glob('sessions/**/*.jsonl'):\n"
        f"    lines = file.read_bytes().splitlines(keepends=True)\n"
        f"    kept = [line for line in lines if b'make Ann' not in line]\n"
        f"    assert len(kept) < len(lines)\n"
        f"    file.write_bytes(b''.join(kept))\n"
        f"os.execv({str(real)!r}, sys.argv)\n"
    )
    (programs / runtime).chmod(0o755)
    desk.path = f"{programs}{os.pathsep}{desk.path}"
    ran = desk("verify", ctx, "--client", runtime)
    assert ran.code == 1, ran
    assert "missing     1 developer" in ran.out or "missing     2 user" in ran.out
    assert "different: 1 message" in ran.out


@pytest.mark.full
@pytest.mark.parametrize("runtime", [pytest.param(one, marks=kit.needs(one)) for one in RUNTIMES])
def test_a_client_goes_on_with_its_own_conversation(desk: Desk, runtime: str) -> None:
    ctx = desk.talk(runtime)
    desk.having(runtime).ok("verify", ctx, "--client", runtime)


@kit.needs("claude")
@pytest.mark.full
def test_claude_code_finds_a_session_of_a_folder_with_a_long_name(desk: Desk) -> None:
    folder = desk.folder / ("x" * 120) / ("ü🍵." * 30)
    folder.mkdir(parents=True)
    ctx = desk.talk("harken")
    desk.having("claude").ok("verify", ctx, "--client", "claude", "--keep", folder / "kept")
