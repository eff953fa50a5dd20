"""Messages of OpenCode as entries, and entries as the messages that it sends.

One idea: a message of the assistant is several steps, each an answer and the results of its calls;
a result stands in the part of its call. What a part has beside what it says is kept below
`opencode` in its `meta`.

Source: docs/formats/opencode.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harken.core import canonical
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    Meta,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    get_count,
    get_object,
    get_objects,
    get_text,
    to_safe_json,
)
from harken.formats.runtimes.json_lines import time_of
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.tool_calls import as_object, clean, content_of, in_order, spoken

OWN = "opencode"
_MOST_USD = 1e6
ASKED_TO_SUM_UP = "What did we do so far?"
CLEARED = "[Old tool result content cleared]"
INTERRUPTED = "[Tool execution was interrupted]"
MEDIA = "Attached media from tool result:"
_SUBTASK = "The following tool was executed by the user"
ABORTED = "MessageAbortedError"
_AS_TEXT = ("text/plain", "application/x-directory")
"""Files of these kinds stand in a text beside them, too."""


def entries_of(info: Record, parts: Sequence[Record]) -> list[ConversationEntry]:
    """Return what a message says, oldest first."""
    if get_text(info, "role") == "user":
        return _asked(info, parts)
    if get_text(info, "role") == "assistant":
        return [entry for step in _steps(parts) for entry in _answered(info, step)]
    return []


def build_resume_request(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return the `messages` that OpenCode sends when it resumes there.

    In the protocol of OpenAI's Chat Completions, to another model than the one that answered so
    far: that is what the recordings show.
    """
    found: list[Record] = []
    media: list[Record] = []
    answering: object = None
    for at, entry in enumerate(entries):
        role = entry.message.role
        if role == "tool":
            continue
        id_ = (entry.source or {}).get("id")
        if role != "assistant" or id_ is None or id_ != answering:
            found += _heard(media)
            media = []
        answering = id_
        if role != "assistant":
            found += _heard([block for block in map(_shown, in_order(entry.message)) if block])
        elif is_replayed(entry):
            results = _results(entries[at + 1 :])
            found += _said(entry, results)
            media = _with_media(media, entry, results)
    return found + _heard(media)


def _asked(info: Record, parts: Sequence[Record]) -> list[ConversationEntry]:
    said: list[Part] = []
    is_typed = False
    for part in parts:
        match get_text(part, "type"):
            case "text" if part.get("ignored") is not True and get_text(part, "text"):
                said.append(TextPart(get_text(part, "text"), _rest(part)))
                is_typed = is_typed or part.get("synthetic") is not True
            case "file" if get_text(part, "mime") not in _AS_TEXT:
                said.append(_file(part))
            case "compaction":
                said.append(TextPart(ASKED_TO_SUM_UP))
            case "subtask":
                said.append(TextPart(_SUBTASK))
    content = content_of(said)
    if content is None:
        return []
    source = {"kind": PROMPT if is_typed else SYSTEM, "id": get_text(info, "id")}
    return [ConversationEntry(Message("user", content), _time(info, "created"), source)]


def _steps(parts: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the parts of each step of an answer."""
    step: list[Record] = []
    for part in parts:
        if get_text(part, "type") == "step-start" and step:
            yield step
            step = []
        step.append(part)
    if step:
        yield step


def _answered(info: Record, parts: list[Record]) -> Iterator[ConversationEntry]:
    """Yield a step of an answer: what was said, and the results of its calls."""
    said: list[Part | ToolCall] = []
    results: list[ConversationEntry] = []
    tokens, spent = get_object(info, "tokens"), info
    for part in parts:
        match get_text(part, "type"):
            case "text":
                said.append(TextPart(get_text(part, "text"), _rest(part)))
            case "reasoning":
                said.append(ThinkingPart(get_text(part, "text"), _rest(part) or {OWN: {}}))
            case "tool":
                said.append(_call(part))
                results += _result(part)
            case "step-finish":
                tokens, spent = get_object(part, "tokens"), part
    if said:
        source: Record = {"id": get_text(info, "id")}
        if get_text(info, "modelID"):
            source["model"] = get_text(info, "modelID")
        usage = _usage(tokens)
        if usage:
            source["usage"] = usage
            source |= _cost(spent)
        if get_text(info, "providerID"):
            source["provider"] = get_text(info, "providerID")
        if isinstance(info.get("error"), dict):
            source["error"] = get_text(get_object(info, "error"), "name")
        time = _time(info, "completed") or _time(info, "created")
        yield ConversationEntry(spoken(said), time, source)
    yield from results


def _time(info: Record, name: str) -> str | None:
    return time_of(get_object(info, "time").get(name))


def _usage(tokens: Record) -> dict[str, int]:
    """Return the counts of an answer as Harken has them: input and output are all of it."""
    cache = get_object(tokens, "cache")
    read, stored = get_count(cache, "read") or 0, get_count(cache, "write") or 0
    found = {
        "input_tokens": (get_count(tokens, "input") or 0) + read + stored,
        "output_tokens": (get_count(tokens, "output") or 0) + (get_count(tokens, "reasoning") or 0),
        "cache_read_tokens": read,
        "cache_write_tokens": stored,
        "reasoning_tokens": get_count(tokens, "reasoning") or 0,
    }
    return {name: number for name, number in found.items() if number}


def _cost(spent: Record) -> dict[str, float]:
    """Return what an answer cost, in USD; nothing where OpenCode knew no price: it says 0 then."""
    cost = spent.get("cost")
    if not isinstance(cost, int | float) or isinstance(cost, bool):
        return {}
    return {"cost_usd": cost} if 0 < cost < _MOST_USD else {}


def _rest(part: Record) -> Meta | None:
    known = {name: to_safe_json(part[name]) for name in ("metadata", "synthetic") if part.get(name)}
    return {OWN: known} if known else None


def _file(part: Record) -> Part:
    """Return a file: an image where it is one; anything else verbatim."""
    url, kind = get_text(part, "url"), get_text(part, "mime")
    head, comma, data = url.partition(";base64,")
    if kind.startswith("image/") and (comma or url.startswith("http")):
        is_inline = bool(comma) and head.startswith("data:")
        return ImagePart(kind, data) if is_inline else ImagePart(kind, url=url)
    kept = {name: get_text(part, name) for name in ("type", "mime", "filename", "url")}
    return UnknownPart("file", canonical.to_canonical_bytes(kept).decode())


def _call(part: Record) -> ToolCall:
    given = canonical.to_json_line(get_object(part, "state").get("input") or {}).decode()
    call = FunctionCall(get_text(part, "tool"), given)
    rest = _rest(part)
    if rest is None:
        return ToolCall(get_text(part, "callID"), call)
    return ToolCall(get_text(part, "callID"), call, meta=rest)


def _result(part: Record) -> Iterator[ConversationEntry]:
    """Yield the result of a call that has ended."""
    state = get_object(part, "state")
    times = get_object(state, "time")
    failed = get_text(state, "status") == "error"
    if not failed and get_text(state, "status") != "completed":
        return
    shown = get_text(state, "error" if failed else "output")
    cut = get_object(state, "metadata")
    if failed and cut.get("interrupted") is True and isinstance(cut.get("output"), str):
        shown, failed = get_text(cut, "output"), False
    said: list[Part] = [TextPart(shown), *map(_file, get_objects(state, "attachments"))]
    message = Message(
        "tool", content_of(said), tool_call_id=get_text(part, "callID"), is_error=failed
    )
    source = {"cleared": True} if times.get("compacted") else None
    yield ConversationEntry(message, time_of(times.get("end")), source)


def is_replayed(entry: ConversationEntry) -> bool:
    """Whether an answer is said again: one that failed is not, unless it was cut off halfway."""
    error = (entry.source or {}).get("error")
    if error is None:
        return True
    items_ = in_order(entry.message)
    return error == ABORTED and any(not isinstance(item, ThinkingPart) for item in items_)


def _results(entries: Sequence[ConversationEntry]) -> dict[str, ConversationEntry]:
    """Return the results that follow an answer, by the ids of their calls."""
    found: dict[str, ConversationEntry] = {}
    for entry in entries:
        if entry.message.role != "tool":
            break
        found.setdefault(entry.message.tool_call_id or "", entry)
    return found


def _said(entry: ConversationEntry, results: dict[str, ConversationEntry]) -> Iterator[Record]:
    """Yield an answer and its results: to another model, thoughts are texts."""
    texts, calls = [], []
    for item in in_order(entry.message):
        match item:
            case TextPart():
                texts.append(item.text)
            case ThinkingPart() if item.text.strip():
                texts.append(item.text)
            case ToolCall():
                calls.append(item)
    said = clean("".join(texts))
    if not said and not calls:
        return
    answer: Record = {"role": "assistant", "content": said}
    if calls:
        answer["tool_calls"] = [_called(call) for call in calls]
    yield answer
    for call in calls:
        yield {"role": "tool", "tool_call_id": call.id, "content": _told(results.get(call.id))}


def _with_media(
    media: list[Record], entry: ConversationEntry, results: dict[str, ConversationEntry]
) -> list[Record]:
    """Return what results showed so far, with those of this answer: it is shown after all of it."""
    for call in entry.message.tool_calls or ():
        result = results.get(call.id)
        if result is not None and not (result.source or {}).get("cleared"):
            shown = [part for part in in_order(result.message) if not isinstance(part, TextPart)]
            found = [block for block in map(_shown, shown) if block]
            if found:
                media = [*(media or [{"type": "text", "text": MEDIA}]), *found]
    return media


def _called(call: ToolCall) -> Record:
    given = as_object(call.function.arguments)
    arguments = (
        clean(call.function.arguments) if given is None else canonical.to_json_line(given).decode()
    )
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _told(result: ConversationEntry | None) -> str:
    if result is None:
        return INTERRUPTED
    if (result.source or {}).get("cleared"):
        return CLEARED
    return clean(text_of(result.message.content))


def _shown(part: Part | ToolCall) -> Record:
    """Return a part of a user's message; empty: it is not shown."""
    match part:
        case TextPart() if part.text:
            return {"type": "text", "text": clean(part.text)}
        case ImagePart():
            inline = f"data:{part.media_type};base64,{part.data}"
            url = part.url if part.data is None else inline
            return {"type": "image_url", "image_url": {"url": url}}
    return {}


def _heard(blocks: list[Record]) -> list[Record]:
    """Return a user's message: one text is a string."""
    if not blocks:
        return []
    content: Any = blocks
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        content = blocks[0]["text"]
    return [{"role": "user", "content": content}]
