"""What Codex sends when it resumes, and what it shortens for that.

One idea: Codex keeps more than it sends. It cuts long outputs in the middle each time that it
reads a rollout, closes calls that have no output, and drops outputs that have no call.

Source: docs/formats/codex.md, "What is sent".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from harken.core.messages import text_of
from harken.formats.base import ConversationEntry
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.providers.openai_responses import (
    CALLS,
    HOSTED,
    OUTPUTS,
    is_instructions,
    items_of,
)
from harken.formats.tool_calls import clean

OUTPUT_BYTES = 12_000
"""What is left of a tool's output for a model that Codex has no limit for: 10,000, and a fifth."""
NO_SUMMARY = "(no summary available)"
_PROMPT_TOKENS = 20_000
_BYTES_PER_TOKEN = 4
ABORTED = "aborted"
_CLOSING = UUID("90d38d3e-6a5b-4d52-bfe2-2f1e634bfac4")
"""In which Codex names the outputs that it adds."""
_INTERNAL = "internal_chat_message_metadata_passthrough"
"""For OpenAI's own service only."""
_BLOCKS = frozenset({"input_text", "input_image", "input_audio", "output_text"})
"""A message that holds another one Codex cannot read."""
_SHELL = {"timeout_ms": None, "working_directory": None, "env": None, "user": None}
_OF_CALL = frozenset({"type", "id", "status", "namespace", "name", "arguments", "call_id"})
"""What Codex reads of a call; what another program wrote into it besides is lost there."""
_SENT = CALLS | OUTPUTS | HOSTED | {"reasoning"}


def build_resume_request(
    entries: Sequence[ConversationEntry], output_bytes: int = OUTPUT_BYTES
) -> list[Record]:
    """Return the `input` of the request that Codex sends when it resumes there.

    output_bytes: how much of each output its model may see.
    """
    return list(_paired([_sent(one, output_bytes) for one in _items(entries) if _is_sent(one)]))


def _items(entries: Iterable[ConversationEntry]) -> Iterator[Record]:
    for entry in entries:
        if is_instructions(entry):
            told = {"type": "input_text", "text": text_of(entry.message.content)}
            yield {"type": "message", "role": "developer", "content": [told]}
        else:
            yield from items_of([entry])


@dataclass(slots=True)
class RecentPrompts:
    """The latest prompts, of which a compaction of the first versions keeps so many."""

    _texts: list[str] = field(default_factory=list)
    _bytes: int = 0

    def add(self, prompt: str) -> None:
        """Add a prompt; drop the oldest, as far as they are too old for all compactions."""
        self._texts.append(clean(prompt))
        self._bytes += _size(self._texts[-1])
        while self._bytes - _size(self._texts[0]) > 2 * _PROMPT_TOKENS * _BYTES_PER_TOKEN:
            self._bytes -= _size(self._texts.pop(0))

    def forget(self, count: int) -> None:
        """Drop the last prompts."""
        for one in self._texts[-count:]:
            self._bytes -= _size(one)
        del self._texts[-count:]

    def latest(self) -> list[str]:
        """Return what is kept, oldest first; the first may be cut."""
        left, kept = _PROMPT_TOKENS, list[str]()
        for one in reversed(self._texts):
            tokens = _tokens(_size(one))
            if tokens > left:
                kept.append(truncate_middle(one, left * _BYTES_PER_TOKEN, unit="tokens"))
                break
            kept.append(one)
            left -= tokens
            if not left:
                break
        return kept[::-1]


def truncate_middle(whole: str, most_bytes: int, *, unit: str = "chars") -> str:
    """Return a text without its middle, where it has more bytes than that in UTF-8.

    >>> truncate_middle("0123456789", 4)
    '01…6 chars truncated…89'
    """
    data = clean(whole).encode()
    if len(data) <= most_bytes:
        return clean(whole)
    left = most_bytes // 2
    head = data[:left].decode(errors="ignore")
    start = len(data) - (most_bytes - left)
    while start < len(data) and data[start] & 0xC0 == 0x80:  # inside a character
        start += 1
    tail = data[start:].decode()
    removed = len(data[len(head.encode()) : start].decode())
    if unit == "tokens":
        removed = _tokens(len(data) - most_bytes)
    return f"{head}…{removed} {unit} truncated…{tail}"


def _size(one: str) -> int:
    return len(one.encode())


def _tokens(size_bytes: int) -> int:
    return -(-size_bytes // _BYTES_PER_TOKEN)


def _is_sent(item: Record) -> bool:
    if get_text(item, "type") != "message":
        return get_text(item, "type") in _SENT
    blocks = get_objects(item, "content")
    return item.get("role") != "system" and all(get_text(one, "type") in _BLOCKS for one in blocks)


def _sent(item: Record, output_bytes: int) -> Record:
    """Return an item as it is sent."""
    item = {name: value for name, value in item.items() if name != _INTERNAL}
    if item["type"] == "function_call":
        return {name: value for name, value in item.items() if name in _OF_CALL}
    if item["type"] == "reasoning":
        return {"content": None, "encrypted_content": None, **item}
    if item["type"] == "local_shell_call":
        return {**item, "action": {**_SHELL, **get_object(item, "action")}}
    if item["type"] in OUTPUTS and "output" in item:
        return {**item, "output": _cut_output(item["output"], output_bytes)}
    return item


def _cut_output(output: object, most_bytes: int) -> object:
    """Return an output within its limit, which the texts of a list share."""
    if isinstance(output, str):
        return truncate_middle(output, most_bytes)
    if not isinstance(output, list):
        return output
    left, omitted, kept = most_bytes, 0, list[object]()
    for block in output:
        if not isinstance(block, dict) or block.get("type") != "input_text":
            kept.append(block)
        elif left == 0:
            omitted += 1
        elif get_text(block, "text"):
            kept.append({**block, "text": truncate_middle(get_text(block, "text"), left)})
            left = max(0, left - _size(clean(get_text(block, "text"))))
    if omitted:
        kept.append({"type": "input_text", "text": f"[omitted {omitted} text items ...]"})
    return kept


def _paired(unpaired: Sequence[Record]) -> Iterator[Record]:
    """Yield items such that each call has an output, and each output a call."""
    named = [(item, get_text(item, "call_id")) for item in unpaired]
    made = {(_pair(item), id_) for item, id_ in named if item["type"] in CALLS}
    answered = {(item["type"], id_) for item, id_ in named if item["type"] in OUTPUTS}
    for item in unpaired:
        id_ = get_text(item, "call_id")
        is_orphan = item["type"] in OUTPUTS and (item["type"], id_) not in made
        if not is_orphan or item.get("execution") == "server":
            yield item
        if item["type"] in CALLS and (_pair(item), id_) not in answered:
            yield closing(item)


def _pair(call: Record) -> str:
    """Return the kind of output that a call has."""
    kind = get_text(call, "type")
    own = {"custom_tool_call": "custom_tool_call_output", "tool_search_call": "tool_search_output"}
    return own.get(kind, "function_call_output")


def closing(call: Record) -> Record:
    """Return the output with which Codex closes a call that has none."""
    closed: Record = {"type": _pair(call), "call_id": get_text(call, "call_id")}
    if get_text(call, "id"):
        short = "".join(word[0] for word in closed["type"].split("_"))
        closed["id"] = f"{short}_{uuid5(_CLOSING, clean(f'{short}:' + call['id']))}"
    if call["type"] == "tool_search_call":
        return {**closed, "status": "completed", "execution": "client", "tools": []}
    return {**closed, "output": ABORTED}
