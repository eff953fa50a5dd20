"""An `AGENTS.md` of a folder that is not trusted is announced, and its control characters escaped.

A cloned repository wrote into the system prompt of every chat in it: nothing told the user, and an
escape sequence in the text reached terminals that showed the prompt. Now a chat says so when it
begins, until `harken trust`, which takes a folder that has nothing but an `AGENTS.md`, too.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import cli, script
from tests.cli.kit import Cli

__all__ = ["cli", "script"]


def prompt_of(log: Path) -> str:
    """Return the system prompt in a log."""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return next(str(row["content"]) for row in rows if row.get("role") == "system")


def test_a_chat_says_that_untrusted_instructions_are_in_the_prompt(cli: Cli, script: str) -> None:
    chat = ("chat", "-p", "hello", "--model", script)
    note = "AGENTS.md (10 bytes) is part of the system prompt, but its folder is not trusted"
    assert "AGENTS.md" not in cli.ok(*chat).err
    Path("AGENTS.md").write_text("Use tabs.\n")
    told = cli.ok(*chat).err
    assert note in told
    assert f"harken trust {Path.cwd()}" in told
    assert note in cli.ok(*chat).err, "until it is trusted"
    assert "AGENTS.md" in cli.ok("trust", "--yes").out
    assert note not in cli.ok(*chat).err
    prompts = [prompt_of(log) for log in cli.sessions()]
    assert sum("Use tabs." in prompt for prompt in prompts) == 3


def test_control_characters_are_escaped(cli: Cli, script: str) -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    text = f"Use tabs.\r\n\tAlways.\x1b[2J\x9b\x00 \u202etxt\u2066 {hidden}"
    Path("AGENTS.md").write_bytes(b"\xef\xbb\xbf" + text.encode())
    cli.ok("chat", "-p", "hello", "--model", script)
    prompt = prompt_of(cli.sessions()[-1])
    assert prompt.endswith(
        "Use tabs.\n\tAlways.\\x1b[2J\\x9b\\x00 \\u202etxt\\u2066 "
        "\\U000e006f\\U000e0062\\U000e0065\\U000e0079"
    )


def test_another_prompt_has_no_instructions_and_no_note(cli: Cli, script: str) -> None:
    Path("AGENTS.md").write_text("Use tabs.\n")
    told = cli.ok("chat", "-p", "hello", "--model", script, "--system-prompt", "Be brief.").err
    assert "AGENTS.md" not in told
    assert prompt_of(cli.sessions()[-1]) == "Be brief."
