"""The command that runs in place of the requested command."""

from __future__ import annotations

import pytest

from harken.capture.live.invocation import Options, Output, parse_command_line, parse_invocation
from harken.errors import ConfigError

STREAM = ["--output-format", "stream-json", "--verbose"]
CASES: list[tuple[list[str], list[str], Output]] = [
    (["claude", "-p", "Hi"], ["claude", "-p", "Hi", *STREAM], "text"),
    (["/opt/claude", "--print", "Hi"], ["/opt/claude", "--print", "Hi", *STREAM], "text"),
    (["claude", "-cp", "Hi"], ["claude", "-cp", "Hi", *STREAM], "text"),
    (
        ["claude", "-p", "--output-format", "json", "Hi"],
        ["claude", "-p", "Hi", *STREAM],
        "json",
    ),
    (["claude", "-p", "--output-format=json", "Hi"], ["claude", "-p", "Hi", *STREAM], "json"),
    (
        ["claude", "-p", "--verbose", "--output-format", "json", "Hi"],
        ["claude", "-p", "--verbose", "Hi", *STREAM[:2]],
        "jsons",
    ),
    (["claude", "-p", "--", "-p"], ["claude", "-p", *STREAM, "--", "-p"], "text"),
    (
        ["claude", "-p", "--allowedTools", "Bash", "Read", "--model", "m"],
        ["claude", "-p", "--allowedTools", "Bash", "Read", "--model", "m", *STREAM],
        "text",
    ),
    (["claude", "-p", "Hi", *STREAM], ["claude", "-p", "Hi", *STREAM], "verbatim"),
    (["claude"], ["claude"], "untouched"),
    (["claude", "Hi"], ["claude", "Hi"], "untouched"),
    (["claude", "--model", "-p"], ["claude", "--model", "-p"], "untouched"),
    (["claude", "--append-system-prompt", "-p"], [], "untouched"),
    (["claude", "mcp", "list"], [], "untouched"),
    (["codex", "exec", "--json", "Hi"], [], "verbatim"),
    (["codex", "-m", "exec", "Hi"], [], "untouched"),
    (["codex", "exec", "Hi"], [], "untouched"),
    (["codex", "e", "--json", "Hi"], [], "verbatim"),
    (["codex"], [], "untouched"),
    (["gemini", "-p", "Hi"], [], "untouched"),
]


@pytest.mark.req("S2-31")
@pytest.mark.parametrize(("arguments", "run", "output"), CASES)
def test_client_is_run_as_called_or_with_event_output(
    arguments: list[str], run: list[str], output: Output
) -> None:
    invocation = parse_invocation(arguments)
    assert (list(invocation.command), invocation.output) == (run or arguments, output)
    assert (invocation.listen is None) == (output == "untouched")


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["claude", "-p", "--max-turns", "3", "Hi there"], "Hi there"),
        (["claude", "-p", "--tools", "Bash", "Read", "--model", "m", "Hi"], "Hi"),
        (["claude", "-p", "-r", "1234", "Hi"], "Hi"),
        (["claude", "-p"], ""),
        (["codex", "-c", "a=b", "exec", "--json", "Hi"], "Hi"),
        (["codex", "exec", "--json", "resume", "1234", "Hi"], "Hi"),
        (["codex", "exec", "resume", "--last", "--json", "Hi"], "Hi"),
        (["codex", "exec", "--json", "-"], ""),
        (["codex", "exec", "--json", "review"], ""),
        (["codex", "exec", "--json"], ""),
    ],
)
def test_prompt_is_the_positional_argument(arguments: list[str], prompt: str) -> None:
    assert parse_invocation(arguments).prompt == prompt


def test_limits_and_folder_are_parsed_from_options() -> None:
    invocation = parse_invocation(
        ["claude", "-p", "--max-turns=3", "--max-budget-usd", "0.5", "Hi"]
    )
    assert (invocation.max_turns, invocation.max_usd) == ("3", "0.5")
    assert parse_invocation(["codex", "exec", "-C", "/cafe", "Hi"]).folder == "/cafe"
    assert parse_invocation(["claude", "-p", "Hi"]).has_file
    assert not parse_invocation(["claude", "-p", "--no-session-persistence", "Hi"]).has_file
    assert not parse_invocation(["codex", "exec", "--json", "--ephemeral", "Hi"]).has_file


def test_unknown_client_is_refused_without_an_explicit_kind() -> None:
    with pytest.raises(ConfigError, match="client 'cat' not found; supported clients: claude"):
        parse_invocation(["cat", "-p"])
    assert parse_invocation(["npx", "claude", "-p", "Hi"], "claude").output == "text"
    with pytest.raises(ConfigError):
        parse_invocation(["claude", "-p"], "cat")


def test_options_consume_their_own_values() -> None:
    options = Options(
        single_value=frozenset(["-m"]), perhaps=frozenset(["-r"]), many=frozenset(["-t"])
    )
    arguments = ["-m", "-x", "-r", "-t", "a", "b", "-r", "id", "--name=v", "-", "-m"]
    words_found = [(word.option, word.values) for word in parse_command_line(arguments, options)]
    assert words_found == [
        ("-m", ("-x",)),
        ("-r", ()),
        ("-t", ("a", "b")),
        ("-r", ("id",)),
        ("--name", ("v",)),
        ("", ("-",)),
        ("-m", ()),
    ]
