"""Reconstruction of the input that Codex sends when it resumes.

Codex stores more than it sends. It truncates long outputs in the middle each time that it reads a
rollout, closes calls without output, and drops outputs without call.

Source: docs/formats/codex.md, "Resume request".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID, uuid5

import msgspec

from harken.core.messages import text_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_text
from harken.formats.providers.openai_item_content import CALL_TYPES, OUTPUT_TYPES
from harken.formats.providers.openai_responses import (
    build_items,
    is_instructions,
)
from harken.formats.runtimes.codex.protocol import declared_item, is_read
from harken.formats.tool_calls import replace_surrogates

OUTPUT_BYTES = 12_000
"""The limit of a tool's output for a model without a limit of its own: 10,000, and a fifth."""
NO_SUMMARY = "(no summary available)"
_MAX_PROMPT_TOKENS = 20_000
_BYTES_PER_TOKEN = 4
ABORTED = "aborted"
_OUTPUT_ID_NAMESPACE = UUID("90d38d3e-6a5b-4d52-bfe2-2f1e634bfac4")
"""The namespace of the ids of outputs that Codex adds."""


def build_resume_request(
    entries: Sequence[ConversationEntry], output_bytes: int = OUTPUT_BYTES
) -> list[Record]:
    """Return the `input` of the request that Codex sends when it resumes there.

    output_bytes: the limit of each output for its model.
    """
    return list(
        _pair_items(
            [_to_sent(item, output_bytes) for item in _iter_items(entries) if is_read(item)]
        )
    )


def _iter_items(entries: Iterable[ConversationEntry]) -> Iterator[Record]:
    for entry in entries:
        if is_instructions(entry):
            block = {"type": "input_text", "text": text_of(entry.message.content)}
            yield {"type": "message", "role": "developer", "content": [block]}
        else:
            yield from build_items([entry])


class RecentPrompts(msgspec.Struct):
    """The latest prompts, of which a compaction of the first versions keeps a limited number."""

    _texts: list[str] = msgspec.field(default_factory=list)
    _size_bytes: int = 0

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> RecentPrompts:
        """Return the prompts that `texts` returned."""
        return cls([*texts], _utf8_size("".join(texts)))

    def add(self, prompt: str) -> None:
        """Add a prompt, and drop the oldest ones that no compaction can use."""
        self._texts.append(replace_surrogates(prompt))
        self._size_bytes += _utf8_size(self._texts[-1])
        while (
            self._size_bytes - _utf8_size(self._texts[0])
            > 2 * _MAX_PROMPT_TOKENS * _BYTES_PER_TOKEN
        ):
            self._size_bytes -= _utf8_size(self._texts.pop(0))

    def forget(self, count: int) -> None:
        """Drop the last prompts."""
        for prompt in self._texts[-count:]:
            self._size_bytes -= _utf8_size(prompt)
        del self._texts[-count:]

    def texts(self) -> list[str]:
        """Return all prompts, oldest first."""
        return [*self._texts]

    def latest(self) -> list[str]:
        """Return the prompts within the limit, oldest first. The first one may be truncated."""
        remaining, prompts = _MAX_PROMPT_TOKENS, list[str]()
        for prompt in reversed(self._texts):
            tokens = _estimate_tokens(_utf8_size(prompt))
            if tokens > remaining:
                prompts.append(truncate_middle(prompt, remaining * _BYTES_PER_TOKEN, unit="tokens"))
                break
            prompts.append(prompt)
            remaining -= tokens
            if not remaining:
                break
        return prompts[::-1]


def truncate_middle(text: str, most_bytes: int, *, unit: str = "chars") -> str:
    """Remove the middle of a text with more than `most_bytes` bytes in UTF-8.

    >>> truncate_middle("0123456789", 4)
    '01…6 chars truncated…89'
    """
    data = replace_surrogates(text).encode()
    if len(data) <= most_bytes:
        return replace_surrogates(text)
    head_bytes = most_bytes // 2
    head = data[:head_bytes].decode(errors="ignore")
    start = len(data) - (most_bytes - head_bytes)
    while start < len(data) and data[start] & 0xC0 == 0x80:  # Skip the rest of a split character.
        start += 1
    tail = data[start:].decode()
    removed = len(data[len(head.encode()) : start].decode())
    if unit == "tokens":
        removed = _estimate_tokens(len(data) - most_bytes)
    return f"{head}…{removed} {unit} truncated…{tail}"


def _utf8_size(text: str) -> int:
    return len(text.encode())


def _estimate_tokens(size_bytes: int) -> int:
    return -(-size_bytes // _BYTES_PER_TOKEN)


def _to_sent(item: Record, output_bytes: int) -> Record:
    """Return an item in the form that is sent."""
    item = declared_item(item)
    if item["type"] in OUTPUT_TYPES and "output" in item:
        return {**item, "output": _truncate_output(item["output"], output_bytes)}
    return item


def _truncate_output(output: object, most_bytes: int) -> object:
    """Return an output within its limit, which the texts of a list share."""
    if isinstance(output, str):
        return truncate_middle(output, most_bytes)
    if not isinstance(output, list):
        return output
    remaining, omitted, blocks = most_bytes, 0, list[object]()
    for block in output:
        if not isinstance(block, dict) or block.get("type") != "input_text":
            blocks.append(block)
        elif remaining == 0:
            omitted += 1
        elif get_text(block, "text"):
            blocks.append({**block, "text": truncate_middle(get_text(block, "text"), remaining)})
            remaining = max(0, remaining - _utf8_size(replace_surrogates(get_text(block, "text"))))
    if omitted:
        blocks.append({"type": "input_text", "text": f"[omitted {omitted} text items ...]"})
    return blocks


def _pair_items(unpaired: Sequence[Record]) -> Iterator[Record]:
    """Yield items such that each call has an output, and each output a call."""
    item_ids = [(item, get_text(item, "call_id")) for item in unpaired]
    call_keys = {(_output_type(item), id_) for item, id_ in item_ids if item["type"] in CALL_TYPES}
    output_keys = {(item["type"], id_) for item, id_ in item_ids if item["type"] in OUTPUT_TYPES}
    for item in unpaired:
        id_ = get_text(item, "call_id")
        is_orphan = item["type"] in OUTPUT_TYPES and (item["type"], id_) not in call_keys
        if not is_orphan or item.get("execution") == "server":
            yield item
        if item["type"] in CALL_TYPES and (_output_type(item), id_) not in output_keys:
            yield build_closing_output(item)


def _output_type(call: Record) -> str:
    """Return the type of output for a call."""
    kind = get_text(call, "type")
    output_types = {
        "custom_tool_call": "custom_tool_call_output",
        "tool_search_call": "tool_search_output",
    }
    return output_types.get(kind, "function_call_output")


def build_closing_output(call: Record) -> Record:
    """Return the output with which Codex closes a call without output."""
    output: Record = {"type": _output_type(call), "call_id": get_text(call, "call_id")}
    if get_text(call, "id"):
        short = "".join(word[0] for word in output["type"].split("_"))
        output["id"] = (
            f"{short}_{uuid5(_OUTPUT_ID_NAMESPACE, replace_surrogates(f'{short}:' + call['id']))}"
        )
    if call["type"] == "tool_search_call":
        return {**output, "status": "completed", "execution": "client", "tools": []}
    return {**output, "output": ABORTED}
