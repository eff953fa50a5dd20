"""Reconstruction of the messages that Claude Code sends when it resumes a conversation.

The messages are a function of the entries. The client repairs what a provider would refuse and
omits what is only for users. This module does the same in the same order: entries are omitted, then
consecutive messages are merged, then calls and results are paired.

Newer versions record a hash of each message of each request, and the messages that do not follow
from the transcript, because reminders were added. `RequestHashes` compares these hashes with the
reconstructed messages: each hash must be of a recorded or of a reconstructed message.

Source: docs/formats/claude-code.md, "Resume request" (observed with 2.1.329) and "Requests"
(versions 2.1.329 and later).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.messages import Message, Part, ToolCall, parts_of, text_of
from harken.formats.base import ConversationEntry
from harken.formats.providers.anthropic import THINKING_MODEL_KEY
from harken.formats.runtimes.base import ModelUse
from harken.formats.runtimes.claude_code.entries import build_block, take_result_members
from harken.formats.runtimes.claude_code.hook_output import HOOK, format_hook_output
from harken.formats.runtimes.claude_code.origins import (
    find_origin,
    frame_message,
    frame_queued_text,
    is_other,
    wrap_reminder,
)
from harken.formats.tool_calls import iter_items

Block = dict[str, Any]

INTERRUPTED = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its "
    "outcome is unknown. Check whether it took effect before relying on it or running it again.]"
)
"""The result of an open call at the end of the conversation."""
MISSING = "[Tool result missing due to internal error]"
"""The result of any other open call, if a parallel call has a result."""
ORPHANED = "[Orphaned tool result removed due to conversation resume]"
"""Replaces a first message that held only results without calls."""
NOTHING = "(no content)"
"""Replaces any other message without remaining content."""
UNANSWERED = "No response requested."
"""The answer to a message that the model did not answer."""
LOADED = "Tool loaded."
"""Follows a result that is a tool."""
RENAMED = {"Task": "Agent"}
"""Current names of renamed tools."""
_THINKING_TYPES = frozenset({"thinking", "redacted_thinking"})


class _Turn(msgspec.Struct):
    """A message under construction."""

    role: str
    blocks: list[Block]
    attached: str = ""
    """The text of a message that was sent during a turn of the model, instead of blocks."""
    is_from_user: bool = True
    """Whether the user sent the attached text."""

    @property
    def message(self) -> dict[str, Any]:
        """The message in the form of the request."""
        return {"role": self.role, "content": self.blocks}


def build_resume_request(
    entries: Sequence[ConversationEntry], use: ModelUse | None = None
) -> list[dict[str, Any]]:
    """Return the messages of the request, oldest first.

    use: the model that continues, if it is known.
    """
    use = use or ModelUse()
    turns = _merge_turns(_iter_turns(entries, use.model), use)
    _pair_results(turns)
    is_unanswered = bool(turns) and turns[-1].role in ("user", "system")
    if is_unanswered and not _needs_no_answer(entries):
        turns.append(_Turn("assistant", [_text_block(UNANSWERED)]))
    return [turn.message for turn in turns]


def build_partial_request(entries: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
    """Return the messages for a part of a conversation. Its calls may be in the previous part."""
    return [turn.message for turn in _merge_turns(_iter_turns(entries, ""), ModelUse())]


def _needs_no_answer(entries: Sequence[ConversationEntry]) -> bool:
    """Whether all entries after the last answer are local actions of a user."""
    entries = [entry for entry in entries if HOOK not in (entry.source or {})]
    roles = [entry.message.role for entry in entries]
    last = max((i for i, role in enumerate(roles) if role in ("assistant", "tool")), default=-1)
    after = entries[last + 1 :]
    if not after or any((entry.source or {}).get("kind") != "system" for entry in after):
        return False
    content = after[0].message.content
    has_caveat = isinstance(content, str) and content.startswith("<local-command-caveat>")
    return has_caveat or all((entry.source or {}).get("local") for entry in after)


def _iter_turns(entries: Sequence[ConversationEntry], model: str) -> Iterator[_Turn]:
    """Yield the turns that are not omitted. model: the one that continues, or empty."""
    result_ids = {entry.message.tool_call_id for entry in entries if entry.message.role == "tool"}
    model = identify_model(model) or _last_model(entries)
    last = max((index for index, e in enumerate(entries) if _is_turn(e)), default=-1)
    for index, entry in enumerate(entries):
        source = entry.source or {}
        match entry.message.role:
            case "assistant" if source.get("kind") != "error":
                blocks = _answer_blocks(entry, model, None if index == last else result_ids)
                if blocks:
                    yield _Turn("assistant", blocks)
            case "tool":
                yield _Turn("user", _build_result(entry))
            case "user" | "system" if source.get("queued") is True or HOOK in source:
                yield _queued_turn(entry)
            case "user" | "system":
                yield _Turn("user", frame_message(source, _user_blocks(entry.message)))


def _is_turn(entry: ConversationEntry) -> bool:
    """Whether an entry is neither a result nor the output of a hook."""
    return entry.message.role != "tool" and HOOK not in (entry.source or {})


def _queued_turn(entry: ConversationEntry) -> _Turn:
    """Return the turn of a message that was sent during a turn of the model, or of a hook."""
    source = entry.source or {}
    output = format_hook_output(source, text_of(entry.message.content))
    if output is not None:
        return _Turn("user", [], output, is_from_user=False)
    blocks = [_build_block(part) for part in parts_of(entry.message.content)]
    text = frame_queued_text(source, [b["text"] for b in blocks if b["type"] == "text"])
    others = [block for block in blocks if block["type"] != "text"]
    if others:
        return _Turn("user", [_text_block(wrap_reminder(text)), *others])
    return _Turn("user", [], text, not is_other(find_origin(source)))


def _last_model(entries: Iterable[ConversationEntry]) -> str:
    """Return the identity of the model that answered last, which the client selects on resume."""
    models = [str((e.source or {}).get("model") or "") for e in entries if _is_answer(e)]
    return identify_model(models[-1]) if models else ""


def _is_answer(entry: ConversationEntry) -> bool:
    return entry.message.role == "assistant" and (entry.source or {}).get("kind") == "response"


def identify_model(name: str) -> str:
    """Return a model's name without its date, version and context window, and those of providers.

    >>> identify_model("us.anthropic.claude-opus-4-5-20251101-v1:0")
    'claude-opus-4-5'
    """
    name = re.split(r"[/.](?=claude-)", name)[-1]
    return re.sub(r"(?:[-@]\d{8})?(?:-v\d+(?::\d+)?)?(?:\[\dm\])?\Z", "", name)


def _answer_blocks(
    entry: ConversationEntry, model: str, result_ids: Collection[str | None] | None
) -> list[Block]:
    """Return the blocks that are sent of an answer, or an empty list.

    result_ids: the ids of calls with results; None for the last answer, whose calls get results.
    """
    sent_blocks: list[Block] = []
    blocks = [_build_block(item) for item in iter_items(entry.message)]
    answer_model = str((entry.source or {}).get("model") or "")
    for record in _split_records(entry, blocks):
        visible = [
            block
            for block in record
            if _is_sent(block, _pop_model(block, answer_model), entry, model)
        ]
        calls = [block["id"] for block in visible if block["type"] == "tool_use"]
        is_blank = all(block["type"] == "text" and not block["text"].strip() for block in visible)
        is_open = result_ids is not None and calls and not any(id_ in result_ids for id_ in calls)
        if not is_blank and not is_open:
            sent_blocks += visible
    if not blocks:
        return [_text_block(NOTHING)]
    return (
        _move_calls_last(sent_blocks)
        if any(block["type"] not in _THINKING_TYPES for block in sent_blocks)
        else []
    )


def _move_calls_last(blocks: list[Block]) -> list[Block]:
    """Move calls after all other blocks, unless a call stands between thoughts."""
    kinds = "".join(_type_letter(block["type"]) for block in blocks)
    if re.search("tc+t", kinds):
        return blocks
    return sorted(blocks, key=lambda block: block["type"] == "tool_use")


def _type_letter(kind: str) -> str:
    return "t" if kind in _THINKING_TYPES else "c" if kind == "tool_use" else "."


def _pop_model(block: Block, answer_model: str) -> str | None:
    """Return the model of a signed thought and remove its tag. Return None for other blocks.

    Only signed thoughts belong to a model.
    """
    tag = block.pop(THINKING_MODEL_KEY, None)
    is_signed = block["type"] == "redacted_thinking" or bool(block.get("signature"))
    is_bound = block["type"] in _THINKING_TYPES and is_signed
    return identify_model(str(tag or answer_model)) if is_bound else None


def _is_sent(block: Block, bound_to: str | None, entry: ConversationEntry, model: str) -> bool:
    """Whether a block is sent to a model. bound_to: the model of a signed thought.

    An unsigned thought of another runtime is no thought of this client.
    """
    if block["type"] in _THINKING_TYPES and bound_to is None:
        return "uuids" in (entry.source or {})
    return bound_to in (None, model)


def _split_records(entry: ConversationEntry, blocks: list[Block]) -> Iterator[list[Block]]:
    """Yield the blocks of an answer by record, mostly one block each."""
    counts = (entry.source or {}).get("blocks")
    values = counts if isinstance(counts, list) else []
    start = 0
    for count in [count for count in values if isinstance(count, int) and count >= 0]:
        yield blocks[start : start + count]
        start += count
    for block in blocks[start:]:
        yield [block]


def _user_blocks(message: Message) -> list[Block]:
    """Return the blocks of a message that is no result. Blank texts of a list are omitted."""
    if isinstance(message.content, str):
        return [_text_block(message.content)]
    blocks = [_build_block(part) for part in iter_items(message)]
    visible = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    return visible or [_text_block(NOTHING)]


def _merge_turns(turns: Iterable[_Turn], use: ModelUse) -> list[_Turn]:
    """Merge the user messages between answers, and add the texts that were attached to them."""
    merged: list[_Turn] = []
    for role, group in groupby(turns, key=lambda turn: turn.role):
        if role == "assistant":
            merged += group
        elif use.has_system_messages:
            merged += _merge_input([*group])
        else:
            merged.append(_merge_input_in_place([*group]))
    return merged


def _merge_input(turns: Sequence[_Turn]) -> list[_Turn]:
    """Merge the turns of one input. The attached texts follow as one system message.

    Without any other message they are a reminder in a message of the user.
    """
    blocks = _merge_blocks(turn.blocks for turn in turns if not turn.attached)
    attached = "\n\n".join(turn.attached for turn in turns if turn.attached)
    if not attached:
        return [_Turn("user", blocks)]
    if not blocks:
        return [_Turn("user", [_text_block(wrap_reminder(attached))])]
    return [_Turn("user", blocks), _Turn("system", [_text_block(attached)])]


def _merge_input_in_place(turns: Sequence[_Turn]) -> _Turn:
    """Merge the turns of one input. The attached texts are reminders in the last result, if any."""
    attached = [wrap_reminder(turn.attached) for turn in turns if turn.attached]
    blocks = _merge_blocks(turn.blocks for turn in turns if not turn.attached)
    result = next((b for b in reversed(blocks) if b["type"] == "tool_result"), None)
    if result is None or isinstance(result.get("content"), list):
        start = [_text_block(text) for text in attached]
        return _Turn("user", _merge_blocks([start, blocks]) if start and blocks else start + blocks)
    texts = [str(result.get("content") or ""), *attached]
    if attached:
        result["content"] = "\n\n".join(filter(None, (text.strip() for text in texts)))
    return _Turn("user", blocks)


def _merge_blocks(groups: Iterable[Sequence[Block]]) -> list[Block]:
    """Merge the blocks of user messages: results first. A line end separates adjacent texts."""
    merged: list[Block] = []
    for blocks in groups:
        if merged and blocks and merged[-1]["type"] == blocks[0]["type"] == "text":
            merged[-1] = _text_block(merged[-1]["text"] + "\n")
        merged = sorted([*merged, *blocks], key=lambda block: block["type"] != "tool_result")
    return merged


def _pair_results(turns: list[_Turn]) -> None:
    """Give each call one result in the next message, and remove all other results."""
    waiting: dict[str, None] = {}
    for index, turn in enumerate(turns):
        if turn.role == "assistant":
            waiting |= dict.fromkeys(b["id"] for b in turn.blocks if b["type"] == "tool_use")
            continue
        if turn.role == "system":
            continue
        turn.blocks[:] = [
            b for b in turn.blocks if b["type"] != "tool_result" or _take_waiting(b, waiting)
        ]
        is_last = all(t.role == "system" for t in turns[index + 1 :]) and all(
            b["type"] == "tool_result" for b in turn.blocks
        )
        if is_last:
            turn.blocks += [_build_closing_result(id_, INTERRUPTED) for id_ in waiting]
        else:
            turn.blocks[:0] = [_build_closing_result(id_, MISSING) for id_ in waiting]
        waiting.clear()
        turn.blocks.sort(key=lambda block: block["type"] != "tool_result")
        if not turn.blocks:
            turn.blocks.append(_text_block(NOTHING if index else ORPHANED))
    if waiting:
        turns.append(_Turn("user", [_build_closing_result(id_, INTERRUPTED) for id_ in waiting]))


def _take_waiting(block: Block, waiting: dict[str, None]) -> bool:
    """Whether a result belongs to a waiting call, which is then removed from `waiting`."""
    if block["tool_use_id"] not in waiting:
        return False
    del waiting[block["tool_use_id"]]
    return True


def _build_closing_result(id_: str, text: str) -> Block:
    return {"type": "tool_result", "tool_use_id": id_, "content": text, "is_error": True}


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _build_result(entry: ConversationEntry) -> list[Block]:
    entry, members = take_result_members(entry)
    message = entry.message
    block: Block = {"type": "tool_result", "tool_use_id": message.tool_call_id or "", **members}
    if isinstance(message.content, str):
        block["content"] = message.content
    elif message.content is not None:
        blocks = [_build_block(part) for part in iter_items(message)]
        # The API accepts only texts in an error.
        block["content"] = [b for b in blocks if not message.is_error or b["type"] == "text"]
    if message.is_error or "is_error" in (entry.source or {}):
        block["is_error"] = message.is_error
    inner = block.get("content")
    is_tool = isinstance(inner, list) and any(b["type"] == "tool_reference" for b in inner)
    return [block, _text_block(LOADED)] if is_tool else [block]


def _build_block(item: Part | ToolCall) -> Block:
    """Return a part as a block, with the current names of tools."""
    block = build_block(item)
    if block["type"] == "tool_use":
        block["name"] = RENAMED.get(block["name"], block["name"])
    return block


REQUEST, MESSAGE = "api-request", "api-request-blob"


class RequestHashes:
    """The recorded message hashes of a transcript and the hashes of known messages."""

    def __init__(self) -> None:
        self._requests_by_hash: dict[str, str] = {}
        """The first request with a message, by the hash of the message."""
        self._known_hashes: set[str] = set()

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record of one of the two kinds. A record of another shape is ignored."""
        hash_, id_, tail = record.get("hash"), record.get("id"), record.get("tail")
        if record.get("type") == MESSAGE and isinstance(hash_, str):
            self._known_hashes.add(hash_)
        elif isinstance(id_, str) and isinstance(tail, list):
            for message_hash in tail:
                if isinstance(message_hash, str):
                    self._requests_by_hash.setdefault(message_hash, id_)

    def add_step(self, entries: Sequence[ConversationEntry]) -> None:
        """Add the entries of one step."""
        if self._requests_by_hash:
            self._known_hashes.update(map(hash_message, build_partial_request(entries)))

    def difference(self) -> str:
        """Return a note about messages that differ from those sent, or an empty string."""
        unknown = [hash_ for hash_ in self._requests_by_hash if hash_ not in self._known_hashes]
        if not unknown:
            return ""
        first = f"the first in the request {self._requests_by_hash[unknown[0]]}"
        return (
            f"{len(unknown)} of {len(self._requests_by_hash)} messages were sent otherwise, {first}"
        )


def hash_message(message: Mapping[str, Any]) -> str:
    """Return the client's hash of a message: 64 hex digits.

    >>> hash_message({"role": "user", "content": "hi"})[:12]
    'da3ac0b4d79d'
    """
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = [{n: v for n, v in block.items() if n != "cache_control"} for block in content]
    return hashlib.sha256(
        canonical.to_canonical_bytes({"content": blocks, "role": message["role"]})
    ).hexdigest()
