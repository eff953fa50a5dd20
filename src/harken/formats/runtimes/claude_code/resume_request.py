"""What Claude Code sends to its provider when it resumes a conversation.

One idea: what is sent is a function of the entries. The client mends what a provider would refuse
and leaves out what only people should see. That is done here in its order: what is left out first,
then messages in a row become one, then calls and results are paired.

Source: docs/formats/claude-code.md, "What is sent": observed with 2.1.329.

What Claude Code says of its requests: whether what is read here is what was sent.

One idea: newer versions record a hash of each message of each request, and those messages in full
that do not follow from the transcript, because reminders stand in them. So each hash is that of
such a message, or of one that is read here; what is neither was sent otherwise than it is read.

Source: docs/formats/claude-code.md, "Requests"; versions 2.1.329 and later.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harken.core import canonical
from harken.core.messages import (
    Message,
    Part,
    ToolCall,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.providers.anthropic import THINKER
from harken.formats.runtimes.claude_code.entries import block_of
from harken.formats.tool_calls import in_order

Block = dict[str, Any]

INTERRUPTED = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its "
    "outcome is unknown. Check whether it took effect before relying on it or running it again.]"
)
"""The result of a call with which the conversation ends."""
MISSING = "[Tool result missing due to internal error]"
"""The result of any other call that has none, where another call beside it has one."""
ORPHANED = "[Orphaned tool result removed due to conversation resume]"
"""In place of a first message that held results only, of calls that are not there."""
NOTHING = "(no content)"
"""In place of any other message that has nothing left."""
UNANSWERED = "No response requested."
"""What the model says to what it did not answer."""
LOADED = "Tool loaded."
"""After a result that is a tool."""
QUEUED = (
    "<system-reminder>\nThe user sent a new message while you were working:\n{}\n\nThis is how "
    "Claude Code surfaces messages the user sends mid-turn — within the running turn, often "
    "alongside the next tool result, rather than as a separate conversation turn. Address the "
    "message above as you continue this turn.\n</system-reminder>\n"
)
"""Around what a user said while the model was at work."""
RENAMED = {"Task": "Agent"}
"""Tools that have another name now."""
DEFAULT_MODEL = "claude-opus-5-5"
"""Which model goes on where the one before is not offered any more."""
_OFFERED = re.compile(r"claude-(?:(?:opus|sonnet)-(?:4-[5-8]|5|5-5)|haiku-4-5)(?:-\d{8})?")
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


@dataclass(slots=True)
class _Turn:
    """A message on its way."""

    role: str
    blocks: list[Block]

    @property
    def message(self) -> dict[str, Any]:
        """As it is sent."""
        return {"role": self.role, "content": self.blocks}


def build_resume_request(entries: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
    """Return the messages that are sent, oldest first."""
    turns = _joined(_turns(entries))
    _pair(turns)
    if turns and turns[-1].role == "user" and not _is_settled(entries):
        turns.append(_Turn("assistant", [_text(UNANSWERED)]))
    return [turn.message for turn in turns]


def messages_in(entries: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
    """Return what is sent of a part of a conversation, whose calls may be in the part before."""
    return [turn.message for turn in _joined(_turns(entries))]


def _is_settled(entries: Sequence[ConversationEntry]) -> bool:
    """Whether all after the last answer is what a user did beside it: nobody was to answer that."""
    last = max((at for at, e in enumerate(entries) if e.message.role != "user"), default=-1)
    after = entries[last + 1 :]
    if not after or any((entry.source or {}).get("kind") != "system" for entry in after):
        return False
    content = after[0].message.content
    is_told = isinstance(content, str) and content.startswith("<local-command-caveat>")
    return is_told or all((entry.source or {}).get("local") for entry in after)


def _turns(entries: Sequence[ConversationEntry]) -> Iterator[_Turn]:
    """Yield what is not left out."""
    answered = {entry.message.tool_call_id for entry in entries if entry.message.role == "tool"}
    model = _model(entries)
    last = max((at for at, e in enumerate(entries) if e.message.role != "tool"), default=-1)
    for at, entry in enumerate(entries):
        source = entry.source or {}
        match entry.message.role:
            case "assistant" if source.get("kind") != "error":
                blocks = _spoken(entry, model, None if at == last else answered)
                if blocks:
                    yield _Turn("assistant", blocks)
            case "tool":
                yield _Turn("user", _result(entry))
            case "user" if source.get("queued") is True:
                yield _Turn("user", [_text(QUEUED.replace("{}", text_of(entry.message.content)))])
            case "user":
                yield _Turn("user", _heard(entry.message))


def _model(entries: Iterable[ConversationEntry]) -> str:
    """Return the model that goes on: the one that answered last, without its date."""
    models = [str((e.source or {}).get("model") or "") for e in entries if _is_answer(e)]
    return _undated(models[-1]) if models and _OFFERED.fullmatch(models[-1]) else DEFAULT_MODEL


def _is_answer(entry: ConversationEntry) -> bool:
    return entry.message.role == "assistant" and (entry.source or {}).get("kind") == "response"


def _undated(model: str) -> str:
    return re.sub(r"-\d{8}$", "", model)


def _spoken(
    entry: ConversationEntry, model: str, answered: Collection[str | None] | None
) -> list[Block]:
    """Return what is sent of an answer; empty: none of it.

    answered: the calls that have results; None: it is the last one, whose calls get some.
    """
    kept: list[Block] = []
    blocks = [_block(item) for item in in_order(entry.message)]
    own = str((entry.source or {}).get("model") or "")
    for record in _records(entry, blocks):
        said = [block for block in record if _thinker(block, own) in (None, model)]
        calls = [block["id"] for block in said if block["type"] == "tool_use"]
        is_blank = all(block["type"] == "text" and not block["text"].strip() for block in said)
        is_open = answered is not None and calls and not any(id_ in answered for id_ in calls)
        if not is_blank and not is_open:
            kept += said
    if not blocks:
        return [_text(NOTHING)]
    return _calls_last(kept) if any(block["type"] not in _THOUGHTS for block in kept) else []


def _calls_last(blocks: list[Block]) -> list[Block]:
    """Return blocks with calls after all else, unless a call stands right between thoughts."""
    kinds = "".join(_letter(block["type"]) for block in blocks)
    if re.search("tc+t", kinds):
        return blocks
    return sorted(blocks, key=lambda block: block["type"] == "tool_use")


def _letter(kind: str) -> str:
    return "t" if kind in _THOUGHTS else "c" if kind == "tool_use" else "."


def _thinker(block: Block, own: str) -> str | None:
    """Return whose thought a block is, and take the mark of that away; None: it is no thought."""
    marked = block.pop(THINKER, None)
    return _undated(str(marked or own)) if block["type"] in _THOUGHTS else None


def _records(entry: ConversationEntry, blocks: list[Block]) -> Iterator[list[Block]]:
    """Yield the blocks of an answer by the records that they stood in; mostly one in each."""
    counts = (entry.source or {}).get("blocks")
    listed = counts if isinstance(counts, list) else []
    at = 0
    for count in [count for count in listed if isinstance(count, int) and count >= 0]:
        yield blocks[at : at + count]
        at += count
    for block in blocks[at:]:
        yield [block]


def _heard(message: Message) -> list[Block]:
    """Return what is sent of what is no result; of a list, blank texts are left out."""
    if isinstance(message.content, str):
        return [_text(message.content)]
    blocks = [_block(part) for part in in_order(message)]
    kept = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    return kept or [_text(NOTHING)]


def _joined(turns: Iterable[_Turn]) -> list[_Turn]:
    """Make one of messages of the user in a row: results, then all else.

    Texts that meet are parted by a line's end.
    """
    joined: list[_Turn] = []
    for turn in turns:
        last = joined[-1].blocks if joined and joined[-1].role == turn.role == "user" else None
        if last is None:
            joined.append(turn)
            continue
        if last and turn.blocks and last[-1]["type"] == turn.blocks[0]["type"] == "text":
            last[-1] = _text(last[-1]["text"] + "\n")
        last[:] = sorted([*last, *turn.blocks], key=lambda block: block["type"] != "tool_result")
    return joined


def _pair(turns: list[_Turn]) -> None:
    """Give each call one result, in the message after it; take all other results away."""
    waiting: dict[str, None] = {}
    for at, turn in enumerate(turns):
        if turn.role == "assistant":
            waiting |= dict.fromkeys(b["id"] for b in turn.blocks if b["type"] == "tool_use")
            continue
        turn.blocks[:] = [b for b in turn.blocks if b["type"] != "tool_result" or _due(b, waiting)]
        is_last = at + 1 == len(turns) and all(b["type"] == "tool_result" for b in turn.blocks)
        if is_last:
            turn.blocks += [_closing(id_, INTERRUPTED) for id_ in waiting]
        else:
            turn.blocks[:0] = [_closing(id_, MISSING) for id_ in waiting]
        waiting.clear()
        turn.blocks.sort(key=lambda block: block["type"] != "tool_result")
        if not turn.blocks:
            turn.blocks.append(_text(NOTHING if at else ORPHANED))
    if waiting:
        turns.append(_Turn("user", [_closing(id_, INTERRUPTED) for id_ in waiting]))


def _due(block: Block, waiting: dict[str, None]) -> bool:
    """Whether a result is that of a call that waits for one; then it does not any more."""
    if block["tool_use_id"] not in waiting:
        return False
    del waiting[block["tool_use_id"]]
    return True


def _closing(id_: str, text: str) -> Block:
    return {"type": "tool_result", "tool_use_id": id_, "content": text, "is_error": True}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _result(entry: ConversationEntry) -> list[Block]:
    message = entry.message
    block: Block = {"type": "tool_result", "tool_use_id": message.tool_call_id or ""}
    if isinstance(message.content, str):
        block["content"] = message.content
    elif message.content is not None:
        blocks = [_block(part) for part in in_order(message)]
        # An error holds nothing but texts: the API refuses all else.
        block["content"] = [b for b in blocks if not message.is_error or b["type"] == "text"]
    if message.is_error or "is_error" in (entry.source or {}):
        block["is_error"] = message.is_error
    inner = block.get("content")
    is_tool = isinstance(inner, list) and any(b["type"] == "tool_reference" for b in inner)
    return [block, _text(LOADED)] if is_tool else [block]


def _block(item: Part | ToolCall) -> Block:
    """Return a part as a block; tools have the names that they have now."""
    block = block_of(item)
    if block["type"] == "tool_use":
        block["name"] = RENAMED.get(block["name"], block["name"])
    return block


REQUEST, MESSAGE = "api-request", "api-request-blob"


class RequestHashes:
    """The hashes of a transcript, and what they are of."""

    def __init__(self) -> None:
        self._asked: dict[str, str] = {}
        """Hash of a message -> the first request that holds it."""
        self._known: set[str] = set()

    def learn(self, record: Mapping[str, Any]) -> None:
        """Take a record of one of the two kinds; what has another shape tells nothing."""
        hash_, id_, tail = record.get("hash"), record.get("id"), record.get("tail")
        if record.get("type") == MESSAGE and isinstance(hash_, str):
            self._known.add(hash_)
        elif isinstance(id_, str) and isinstance(tail, list):
            for one in tail:
                if isinstance(one, str):
                    self._asked.setdefault(one, id_)

    def read(self, entries: Sequence[ConversationEntry]) -> None:
        """Take what one step says."""
        if self._asked:
            self._known.update(map(hash_of, messages_in(entries)))

    def difference(self) -> str:
        """Return a line on what was sent otherwise than it is read; empty: nothing was."""
        strange = [hash_ for hash_ in self._asked if hash_ not in self._known]
        if not strange:
            return ""
        where = f"the first in the request {self._asked[strange[0]]}"
        return f"{len(strange)} of {len(self._asked)} messages were sent otherwise, {where}"


def hash_of(message: Mapping[str, Any]) -> str:
    """Return the hash by which the client names a message: 64 hex digits.

    >>> hash_of({"role": "user", "content": "hi"})[:12]
    'da3ac0b4d79d'
    """
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    plain = [{n: v for n, v in block.items() if n != "cache_control"} for block in content]
    return hashlib.sha256(
        canonical.to_canonical_bytes({"content": plain, "role": message["role"]})
    ).hexdigest()
