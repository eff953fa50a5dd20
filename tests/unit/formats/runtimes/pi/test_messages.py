"""Messages of Pi: commands that the user ran, token counts, and blocks of content."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.messages import ImagePart, TextPart, ThinkingPart, UnknownPart
from tests.unit.formats.runtimes.pi.test_reader import linear_session, read_tip


def read_message(message: dict[str, Any]) -> Any:
    [entry] = read_tip(linear_session(message))
    return entry


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "Ran `ls`\n(no output)"),
        ({"output": "a\nb"}, "Ran `ls`\n```\na\nb\n```"),
        ({"exitCode": 0}, "Ran `ls`\n(no output)"),
        ({"exitCode": 2}, "Ran `ls`\n(no output)\n\nCommand exited with code 2"),
        ({"exitCode": "2"}, "Ran `ls`\n(no output)"),
        ({"cancelled": True, "exitCode": 2}, "Ran `ls`\n(no output)\n\n(command cancelled)"),
        ({"truncated": True}, "Ran `ls`\n(no output)"),
        ({"fullOutputPath": "/o"}, "Ran `ls`\n(no output)"),
        (
            {"truncated": True, "fullOutputPath": "/o"},
            "Ran `ls`\n(no output)\n\n[Output truncated. Full output: /o]",
        ),
    ],
)
def test_command_of_the_user_is_text(members: dict[str, Any], text: str) -> None:
    entry = read_message({"role": "bashExecution", "command": "ls", **members})
    assert entry.message.content == text


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({}, {}),
        ({"input": 3, "output": 0}, {"input_tokens": 3}),
        ({"cacheRead": 5}, {"input_tokens": 5, "cache_read_tokens": 5}),
        (
            {"input": 1, "cacheRead": 2, "cacheWrite": 4, "output": 8},
            {
                "input_tokens": 7,
                "output_tokens": 8,
                "cache_read_tokens": 2,
                "cache_write_tokens": 4,
            },
        ),
        ({"input": -1, "output": True, "cacheRead": "2"}, {}),
    ],
)
def test_input_tokens_are_the_total(counts: dict[str, Any], usage: dict[str, int]) -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "a"}], "usage": counts}
    assert (read_message(message).source or {}).get("usage", {}) == usage


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "a", "id": "t1"}, TextPart("a", {"pi": {"id": "t1"}})),
        ({"type": "thinking", "thinking": "hm"}, ThinkingPart("hm")),
        (
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            ImagePart("image/png", "aGk="),
        ),
        ({"type": "image", "data": 5}, UnknownPart("image", '{"type":"image","data":5}')),
        ({"type": "song"}, UnknownPart("song", '{"type":"song"}')),
    ],
)
def test_block_is_a_part_with_its_other_members(block: dict[str, Any], part: Any) -> None:
    message = {"role": "user", "content": [block, {"type": "text", "text": "b"}]}
    assert read_message(message).message.content == [part, TextPart("b")]
