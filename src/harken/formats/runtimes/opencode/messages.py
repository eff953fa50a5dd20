"""Conversion between OpenCode messages and entries, and the messages that it sends.

A message of the assistant has several steps, each an answer and the results of its calls; a result
is stored in the part of its call. Other data of a part is stored below `opencode` in its `meta`.

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
from harken.formats.runtimes.json_lines import normalize_time
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.tool_calls import (
    build_assistant_message,
    iter_items,
    normalize_content,
    parse_json_object,
    replace_surrogates,
)

METADATA_KEY = "opencode"
_MAX_COST_USD = 1e6
SUMMARY_PROMPT = "What did we do so far?"
CLEARED = "[Old tool result content cleared]"
INTERRUPTED = "[Tool execution was interrupted]"
MEDIA = "Attached media from tool result:"
_SUBTASK_TEXT = "The following tool was executed by the user"
ABORTED = "MessageAbortedError"
_TEXT_TYPES = ("text/plain", "application/x-directory")
"""Files of these types are also in an adjacent text."""


def entries_from_message(info: Record, parts: Sequence[Record]) -> list[ConversationEntry]:
    """Return the entries of a message, oldest first."""
    if get_text(info, "role") == "user":
        return _user_entries(info, parts)
    if get_text(info, "role") == "assistant":
        return [entry for step in _split_steps(parts) for entry in _iter_step_entries(info, step)]
    return []


def build_resume_request(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return the `messages` that OpenCode sends when it resumes there.

    In the protocol of OpenAI's Chat Completions, to another model than the one of the conversation,
    as in the recordings.
    """
    messages: list[Record] = []
    media: list[Record] = []
    answer_id: object = None
    for index, entry in enumerate(entries):
        role = entry.message.role
        if role == "tool":
            continue
        id_ = (entry.source or {}).get("id")
        if role != "assistant" or id_ is None or id_ != answer_id:
            messages += _user_messages(media)
            media = []
        answer_id = id_
        if role != "assistant":
            messages += _user_messages(
                [block for block in map(_build_block, iter_items(entry.message)) if block]
            )
        elif is_replayed(entry):
            results = _results_by_call(entries[index + 1 :])
            messages += _iter_answer_messages(entry, results)
            media = _with_media(media, entry, results)
    return messages + _user_messages(media)


def _user_entries(info: Record, parts: Sequence[Record]) -> list[ConversationEntry]:
    message_parts_: list[Part] = []
    is_typed = False
    for part in parts:
        match get_text(part, "type"):
            case "text" if part.get("ignored") is not True and get_text(part, "text"):
                message_parts_.append(TextPart(get_text(part, "text"), _extra_meta(part)))
                is_typed = is_typed or part.get("synthetic") is not True
            case "file" if get_text(part, "mime") not in _TEXT_TYPES:
                message_parts_.append(_parse_file(part))
            case "compaction":
                message_parts_.append(TextPart(SUMMARY_PROMPT))
            case "subtask":
                message_parts_.append(TextPart(_SUBTASK_TEXT))
    content = normalize_content(message_parts_)
    if content is None:
        return []
    source = {"kind": PROMPT if is_typed else SYSTEM, "id": get_text(info, "id")}
    return [ConversationEntry(Message("user", content), _time_member(info, "created"), source)]


def _split_steps(parts: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the parts of each step of an answer."""
    step: list[Record] = []
    for part in parts:
        if get_text(part, "type") == "step-start" and step:
            yield step
            step = []
        step.append(part)
    if step:
        yield step


def _iter_step_entries(info: Record, parts: list[Record]) -> Iterator[ConversationEntry]:
    """Yield the entries of a step of an answer: the answer, and the results of its calls."""
    items: list[Part | ToolCall] = []
    results: list[ConversationEntry] = []
    tokens, cost_source = get_object(info, "tokens"), info
    for part in parts:
        match get_text(part, "type"):
            case "text":
                items.append(TextPart(get_text(part, "text"), _extra_meta(part)))
            case "reasoning":
                items.append(
                    ThinkingPart(get_text(part, "text"), _extra_meta(part) or {METADATA_KEY: {}})
                )
            case "tool":
                items.append(_parse_call(part))
                results += _iter_result(part)
            case "step-finish":
                tokens, cost_source = get_object(part, "tokens"), part
    if items:
        source: Record = {"id": get_text(info, "id")}
        if get_text(info, "modelID"):
            source["model"] = get_text(info, "modelID")
        usage = _parse_usage(tokens)
        if usage:
            source["usage"] = usage
            source |= _parse_cost(cost_source)
        if get_text(info, "providerID"):
            source["provider"] = get_text(info, "providerID")
        if isinstance(info.get("error"), dict):
            source["error"] = get_text(get_object(info, "error"), "name")
        time = _time_member(info, "completed") or _time_member(info, "created")
        yield ConversationEntry(build_assistant_message(items), time, source)
    yield from results


def _time_member(info: Record, name: str) -> str | None:
    return normalize_time(get_object(info, "time").get(name))


def _parse_usage(tokens: Record) -> dict[str, int]:
    """Return Harken's token counts of an answer. Input and output are totals."""
    cache = get_object(tokens, "cache")
    cache_read, cache_write = get_count(cache, "read") or 0, get_count(cache, "write") or 0
    counts = {
        "input_tokens": (get_count(tokens, "input") or 0) + cache_read + cache_write,
        "output_tokens": (get_count(tokens, "output") or 0) + (get_count(tokens, "reasoning") or 0),
        "cache_read_tokens": cache_read,
        "cache_write_tokens": cache_write,
        "reasoning_tokens": get_count(tokens, "reasoning") or 0,
    }
    return {name: number for name, number in counts.items() if number}


def _parse_cost(record: Record) -> dict[str, float]:
    """Return the cost of an answer in USD.

    It is omitted if OpenCode has no price, which it records as 0.
    """
    cost = record.get("cost")
    if not isinstance(cost, int | float) or isinstance(cost, bool):
        return {}
    return {"cost_usd": cost} if 0 < cost < _MAX_COST_USD else {}


def _extra_meta(part: Record) -> Meta | None:
    members = {
        name: to_safe_json(part[name]) for name in ("metadata", "synthetic") if part.get(name)
    }
    return {METADATA_KEY: members} if members else None


def _parse_file(part: Record) -> Part:
    """Return a file as an image, or verbatim if it is no image."""
    url, kind = get_text(part, "url"), get_text(part, "mime")
    head, comma, data = url.partition(";base64,")
    if kind.startswith("image/") and (comma or url.startswith("http")):
        is_inline = bool(comma) and head.startswith("data:")
        return ImagePart(kind, data) if is_inline else ImagePart(kind, url=url)
    members = {name: get_text(part, name) for name in ("type", "mime", "filename", "url")}
    return UnknownPart("file", canonical.to_canonical_bytes(members).decode())


def _parse_call(part: Record) -> ToolCall:
    arguments = canonical.to_json_line(get_object(part, "state").get("input") or {}).decode()
    call = FunctionCall(get_text(part, "tool"), arguments)
    meta = _extra_meta(part)
    if meta is None:
        return ToolCall(get_text(part, "callID"), call)
    return ToolCall(get_text(part, "callID"), call, meta=meta)


def _iter_result(part: Record) -> Iterator[ConversationEntry]:
    """Yield the result of a call that has ended."""
    state = get_object(part, "state")
    times = get_object(state, "time")
    is_error = get_text(state, "status") == "error"
    if not is_error and get_text(state, "status") != "completed":
        return
    text = get_text(state, "error" if is_error else "output")
    metadata = get_object(state, "metadata")
    if is_error and metadata.get("interrupted") is True and isinstance(metadata.get("output"), str):
        text, is_error = get_text(metadata, "output"), False
    message_parts_: list[Part] = [
        TextPart(text),
        *map(_parse_file, get_objects(state, "attachments")),
    ]
    message = Message(
        "tool",
        normalize_content(message_parts_),
        tool_call_id=get_text(part, "callID"),
        is_error=is_error,
    )
    source = {"cleared": True} if times.get("compacted") else None
    yield ConversationEntry(message, normalize_time(times.get("end")), source)


def is_replayed(entry: ConversationEntry) -> bool:
    """Whether an answer is sent again: not if it failed, unless it was aborted with content."""
    error = (entry.source or {}).get("error")
    if error is None:
        return True
    items_ = iter_items(entry.message)
    return error == ABORTED and any(not isinstance(item, ThinkingPart) for item in items_)


def _results_by_call(entries: Sequence[ConversationEntry]) -> dict[str, ConversationEntry]:
    """Return the results that follow an answer, by the ids of their calls."""
    results: dict[str, ConversationEntry] = {}
    for entry in entries:
        if entry.message.role != "tool":
            break
        results.setdefault(entry.message.tool_call_id or "", entry)
    return results


def _iter_answer_messages(
    entry: ConversationEntry, results: dict[str, ConversationEntry]
) -> Iterator[Record]:
    """Yield an answer and its results. For another model, thoughts are texts."""
    texts, calls = [], []
    for item in iter_items(entry.message):
        match item:
            case TextPart():
                texts.append(item.text)
            case ThinkingPart() if item.text.strip():
                texts.append(item.text)
            case ToolCall():
                calls.append(item)
    text = replace_surrogates("".join(texts))
    if not text and not calls:
        return
    answer: Record = {"role": "assistant", "content": text}
    if calls:
        answer["tool_calls"] = [_build_call(call) for call in calls]
    yield answer
    for call in calls:
        yield {
            "role": "tool",
            "tool_call_id": call.id,
            "content": _result_text(results.get(call.id)),
        }


def _with_media(
    media: list[Record], entry: ConversationEntry, results: dict[str, ConversationEntry]
) -> list[Record]:
    """Return the media of previous results and of this answer's.

    They are sent after the complete answer.
    """
    for call in entry.message.tool_calls or ():
        result = results.get(call.id)
        if result is not None and not (result.source or {}).get("cleared"):
            media_parts = [
                part for part in iter_items(result.message) if not isinstance(part, TextPart)
            ]
            blocks = [block for block in map(_build_block, media_parts) if block]
            if blocks:
                media = [*(media or [{"type": "text", "text": MEDIA}]), *blocks]
    return media


def _build_call(call: ToolCall) -> Record:
    parsed = parse_json_object(call.function.arguments)
    arguments = (
        replace_surrogates(call.function.arguments)
        if parsed is None
        else canonical.to_json_line(parsed).decode()
    )
    function = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _result_text(result: ConversationEntry | None) -> str:
    if result is None:
        return INTERRUPTED
    if (result.source or {}).get("cleared"):
        return CLEARED
    return replace_surrogates(text_of(result.message.content))


def _build_block(part: Part | ToolCall) -> Record:
    """Return a part of a user message, or an empty object if it is not sent."""
    match part:
        case TextPart() if part.text:
            return {"type": "text", "text": replace_surrogates(part.text)}
        case ImagePart():
            inline = f"data:{part.media_type};base64,{part.data}"
            url = part.url if part.data is None else inline
            return {"type": "image_url", "image_url": {"url": url}}
    return {}


def _user_messages(blocks: list[Record]) -> list[Record]:
    """Return a user message. A single text is a string."""
    if not blocks:
        return []
    content: Any = blocks
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        content = blocks[0]["text"]
    return [{"role": "user", "content": content}]
