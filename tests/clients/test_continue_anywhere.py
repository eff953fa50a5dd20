"""The real clients continue each other's conversations, and `harken verify` shows their requests.

The real clients hold the original conversations, too, with a fake model.
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
    """A home of Harken and of a user with clients."""

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
        """Hold a conversation in a client or in Harken. Return its commit."""
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
def test_conversation_continues_in_another_client(desk: Desk, source: str, target: str) -> None:
    """The strict provider accepts the written session without loss, and `verify` reports that.

    A conversation can also continue from an inner message.
    """
    ctx = desk.talk(source)
    desk.having(target)
    if target != "opencode":
        ran = desk.ok("resume", ctx, "--client", target, "--print")
        resumed = kit.resume(target, Path(ran.err.splitlines()[-1].partition(" in ")[2]))
        assert resumed.reason is None
        sent_text = json.dumps(resumed.sent)  # adjacent texts of one role are joined
        assert [text for text in resumed.lost if json.dumps(text)[1:-1] not in sent_text] == []
    report = json.loads(desk.ok("verify", ctx, "--client", target, "--at", "-2", "--json").out)
    assert report["same"]
    assert report["messages"]


@pytest.mark.parametrize(
    "runtime",
    [pytest.param(runtime_name, marks=kit.needs(runtime_name)) for runtime_name in ("codex",)],
)
def test_message_missing_in_the_file_is_detected(desk: Desk, runtime: str) -> None:
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
@pytest.mark.parametrize(
    "runtime",
    [pytest.param(runtime_name, marks=kit.needs(runtime_name)) for runtime_name in RUNTIMES],
)
def test_client_continues_its_own_conversation(desk: Desk, runtime: str) -> None:
    ctx = desk.talk(runtime)
    desk.having(runtime).ok("verify", ctx, "--client", runtime)


@kit.needs("claude")
@pytest.mark.full
def test_claude_code_resumes_in_a_folder_with_a_long_name(desk: Desk) -> None:
    folder = desk.folder / ("x" * 120) / ("ü🍵." * 30)
    folder.mkdir(parents=True)
    ctx = desk.talk("harken")
    desk.having("claude").ok("verify", ctx, "--client", "claude", "--keep", folder / "kept")
