"""A file of 2 GB is imported in a memory that does not grow with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

SIZE_BYTES = 2 << 30
MOST_BYTES = 300 << 20
RESULT_BYTES = 8192
"""With these a line has about 4 KB, as in real transcripts."""
IMPORT = """
import json, resource, sys
from harken.cli.main import run_cli as run
code = run(["import", sys.argv[1], "--json", "--home", sys.argv[2]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)
sys.exit(code)
"""


def claude(number: int, words: str) -> dict[str, Any]:
    """Return a line: a call and its result in turn."""
    kind = "user" if number % 2 == 0 else "assistant"
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": f"c{number - 1}",
        "content": words,
    }
    body: dict[str, Any] = {"role": kind, "content": [block] if number else words}
    if kind == "assistant":
        block = {
            "type": "tool_use",
            "id": f"c{number}",
            "name": "Bash",
            "input": {"command": f"ls {number}"},
        }
        usage = {"input_tokens": number, "output_tokens": 20}
        body |= {"id": f"msg_{number:020}", "model": "claude", "content": [block], "usage": usage}
    uuids = {"uuid": f"{number:036}", "parentUuid": f"{number - 1:036}" if number else None}
    return {
        "type": kind,
        "sessionId": "large",
        "message": body,
        "timestamp": _time(number),
        **uuids,
    }


def codex(number: int, words: str) -> dict[str, Any]:
    payload: dict[str, Any] = {"type": "function_call_output", "call_id": f"c{number - 1}"}
    payload["output"] = words
    if number == 0:
        return {"type": "session_meta", "payload": {"id": "large"}, "timestamp": _time(0)}
    if number % 2:
        payload = {
            "type": "function_call",
            "call_id": f"c{number}",
            "name": "exec",
            "arguments": "{}",
        }
    return {"type": "response_item", "payload": payload, "timestamp": _time(number)}


def pi(number: int, words: str) -> dict[str, Any]:
    if number == 0:
        return {"type": "session", "version": 3, "id": "large", "cwd": "/w", "timestamp": _time(0)}
    content: list[dict[str, Any]] = [{"type": "text", "text": words}]
    message: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": f"c{number - 1}",
        "content": content,
    }
    if number % 2:
        call = {"type": "toolCall", "id": f"c{number}", "name": "bash", "arguments": {"at": number}}
        message = {"role": "assistant", "content": [call], "model": "m", "provider": "p"}
    ids = {"id": f"{number:08}", "parentId": f"{number - 1:08}" if number > 1 else None}
    return {"type": "message", "message": message, "timestamp": _time(number), **ids}


def lines(
    make: Callable[[int, str], dict[str, Any]], size_bytes: int = SIZE_BYTES
) -> Iterator[bytes]:
    """Yield the lines of a conversation that long, with words that do not repeat."""
    random, byte_count, number = Random(1), 0, 0  # the same file each time
    while byte_count < size_bytes:
        words = random.randbytes(RESULT_BYTES // 4).hex() * 2 if number % 2 == 0 else ""
        data = json.dumps(make(number, words)).encode() + b"\n"
        yield data
        byte_count, number = byte_count + len(data), number + 1


def _time(number: int) -> str:
    time = datetime(2026, 1, 31, tzinfo=UTC) + timedelta(seconds=number)
    return f"{time:%Y-%m-%dT%H:%M:%S}.000Z"


@pytest.mark.full
@pytest.mark.parametrize("make", [claude, codex, pi], ids=lambda make: make.__name__)
def test_a_file_of_two_gigabytes_needs_little_memory(
    make: Callable[[int, str], dict[str, Any]],
) -> None:
    with TemporaryDirectory() as folder:  # which goes at once: it is large
        import_large(make, Path(folder))


def import_large(make: Callable[[int, str], dict[str, Any]], folder: Path) -> None:
    path = folder / "large.jsonl"
    count = 0
    with path.open("wb") as file:
        for line in lines(make):
            file.write(line)
            count += 1
        file.write(b'{"torn')
    command = [sys.executable, "-c", IMPORT, str(path), str(folder / "home")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(ran.stdout)
    memory = int(ran.stderr.split()[-1])
    print(f"{make.__name__}: {path.stat().st_size:,} bytes, {count:,} lines, {memory:,} bytes held")
    assert (report["lines"], report["bad_lines"]) == (count + 1, 1)
    assert report["commits"] > count // 2 - 2
    assert memory < MOST_BYTES
