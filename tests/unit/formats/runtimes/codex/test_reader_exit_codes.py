"""Exit codes of commands that Codex ran."""

from __future__ import annotations

import pytest

from harken.core.messages import Message
from harken.formats.providers.openai_responses import build_items
from harken.formats.runtimes.codex.reader import NATIVE
from tests.unit.formats.native_kit import encode_lines, read_context, read_steps


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno", 2),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 1", 0),
        ('{"output":"no","metadata":{"exit_code":127,"duration_seconds":0.1}}', 127),
        ("Wall time: 1 seconds\nProcess running with session ID 7\nOutput:\n", None),
        ("Output:\nProcess exited with code 1", None),
        ("Process exited with code 1", None),
        ('{"output":"no","metadata":{"exit_code":"1"}}', None),
        ('{"output":' + "[" * 100_000, None),
        ("Exit code: " + "9" * 5000 + "\nOutput:\n", None),
    ],
)
def test_exit_code_of_a_command_is_in_the_source_of_its_result(
    output: str, code: int | None
) -> None:
    item = {"type": "function_call_output", "call_id": "c1", "output": output}
    call = {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c1"}
    records = ({"type": "response_item", "payload": record} for record in (call, item))
    steps, reading = read_steps(NATIVE, encode_lines(*records))
    entry = read_context(steps, reading.tips[""])[-1]
    assert (entry.source or {}).get("exit_code") == code
    assert entry.message == Message("tool", output, tool_call_id="c1")
    assert build_items([entry]) == [item]
