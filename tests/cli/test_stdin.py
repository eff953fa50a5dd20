"""Lines from a pipe, while something else may happen."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cli.kit import HARKEN, Cli
from tests.cli.test_agent import SCRIPT


def chat(cli: Cli, tmp_path: Path) -> subprocess.Popen[str]:
    """Start a chat whose input is a pipe."""
    script = tmp_path / "tea.yaml"
    script.write_text(SCRIPT)
    command = [str(HARKEN), "chat", "--home", str(cli.home), "--model", f"scripted:{script}"]
    return subprocess.Popen(
        [*command, "--permission", "all"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=dict(os.environ),
    )


def test_what_happens_is_answered_between_two_lines_and_no_line_is_lost(
    cli: Cli, tmp_path: Path
) -> None:
    with chat(cli, tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("soon\nhel")
        process.stdin.flush()
        assert process.stdout.readline() == "Done.\n"
        assert process.stdout.readline() == "Tea is ready.\n"
        process.stdin.write("lo\nbuild\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(3)] == [
            "Done.\n",
            "Done.\n",
            "It is built.\n",
        ]
        rest, err = process.communicate("last", timeout=60)
    assert (process.returncode, rest) == (0, "Done.\n")
    assert "Fatal" not in err


def test_the_end_of_the_input_ends_a_chat_although_something_is_armed(
    cli: Cli, tmp_path: Path
) -> None:
    with chat(cli, tmp_path) as process:
        out, err = process.communicate("watch\n", timeout=60)
    assert (process.returncode, out) == (0, "Done.\n")
    assert "Traceback" not in err
