"""ATIF, the Agent Trajectory Interchange Format of Harbor: reads 1.x, writes 1.7.

A trajectory is a document, and documents of subagents are nested in it or stand beside it. Nested
documents become agents, spawned where a result names them.

A step of an agent is an answer with the results of its calls; so it is several messages, and
several messages are one step. Data of an entry that a step cannot carry (native ids, usage in the
form of its runtime) is in its `extra`, under `harken`, and is read from there.

Source: docs/formats/atif.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.commits import hash_raw
from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Format
from harken.formats.json_records import (
    Record,
    get_count,
    get_object,
    get_objects,
    get_text,
    to_safe_json,
)
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.json_lines import normalize_time, read_document
from harken.formats.runtimes.steps import StepBuilder
from harken.formats.tool_calls import (
    CallIds,
    build_assistant_message,
    encode_tool_call,
    replace_surrogates,
)

METADATA_KEY = "harken"
"""The member of `extra` with Harken's data."""
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_DATA_URL_PATTERN = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
_ROLES = {"user": "user", "system": "system"}
_MAX_NAME_CHARS = 256


def entries_from_step(step: Record) -> list[ConversationEntry]:
    """Return the messages of a step: the message itself, then the results."""
    time, extra = normalize_time(step.get("timestamp")), get_object(step, "extra")
    metadata = get_object(extra, METADATA_KEY)
    source = {**_source_of(step), **get_object(metadata, "source")}
    entries: list[ConversationEntry] = []
    message = _parse_message(step)
    if message is not None:
        entries.append(ConversationEntry(message, time, source or None))
    times = _as_text_list(metadata.get("times"))
    for index, result in enumerate(get_objects(get_object(step, "observation"), "results")):
        answer = _parse_result(result, is_call=bool(step.get("tool_calls")))
        result_time = normalize_time(times[index]) if index < len(times) else None
        entries.append(ConversationEntry(answer, result_time or time, {"kind": "tool_result"}))
    return entries


def _parse_message(step: Record) -> Message | None:
    role = _ROLES.get(get_text(step, "source"))
    content = _parse_content(step.get("message"))
    if role is not None:
        is_event = "observation" in step and not content
        return None if is_event else Message(role, content or "")  # type: ignore[arg-type]
    thinking = get_text(step, "reasoning_content")
    parts: list[Part] = [ThinkingPart(thinking)] if thinking else []
    if isinstance(content, str):
        parts += [TextPart(content)] if content else []
    else:
        parts += [part for part in content or () if not isinstance(part, ThinkingPart)]  # type: ignore[misc]
    return build_assistant_message([*parts, *map(_parse_call, get_objects(step, "tool_calls"))])


def _source_of(step: Record) -> dict[str, Any]:
    """Return the data of a step beside its message, in the form of `source`."""
    source_data: dict[str, Any] = {}
    kinds = {"user": "prompt", "agent": "response"}
    kind = kinds.get(get_text(step, "source"))
    if kind:
        source_data["kind"] = kind
    model, metrics = get_text(step, "model_name"), get_object(step, "metrics")
    if model:
        source_data["model"] = model
    usage = {name: value for name, value in metrics.items() if name in _USAGE_NAMES}
    if usage:
        source_data["usage"] = to_safe_json(usage)
    if step.get("is_copied_context") is True:
        source_data["copied"] = True
    return source_data


_CACHED_NAMES = (
    "cache_read_input_tokens",
    "cache_read_tokens",
    "cached_input_tokens",
    "cached_tokens",
)
"""Names of the count of cached tokens in usage objects."""
_DETAILS_NAMES = ("input_tokens_details", "prompt_tokens_details")
"""Members of usage objects that hold the count of cached tokens."""
_USAGE_NAMES = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra")


def _parse_call(call: Record) -> ToolCall:
    arguments = canonical.to_json_line(to_safe_json(get_object(call, "arguments"))).decode()
    original = get_object(get_object(call, "extra"), METADATA_KEY).get("arguments")
    if isinstance(original, str):
        arguments = original
    id_, name = get_text(call, "tool_call_id"), get_text(call, "function_name")
    return ToolCall(id_, FunctionCall(name, arguments))


def _parse_result(result: Record, *, is_call: bool) -> Message:
    extra = get_object(get_object(result, "extra"), METADATA_KEY)
    id_ = get_text(result, "source_call_id") if is_call else get_text(extra, "call")
    content = _parse_content(result.get("content"))
    if not id_ and not is_call:
        return Message("user", content or "")
    is_error = extra.get("is_error") is True
    return Message("tool", content, tool_call_id=id_, is_error=is_error)


def _parse_content(value: object) -> Content:
    if value is None or isinstance(value, str):
        return value
    return [_parse_part(part) for part in get_objects({"parts": value}, "parts")]


def _parse_part(part: Record) -> TextPart | ImagePart:
    if get_text(part, "type") != "image":
        return TextPart(get_text(part, "text") or get_text(get_object(part, "source"), "path"))
    source = get_object(part, "source")
    path, media_type = get_text(source, "path"), get_text(source, "media_type") or None
    data = _DATA_URL_PATTERN.fullmatch(path)
    if data is not None:
        return ImagePart(media_type or data[1] or None, data[2])
    return ImagePart(media_type, url=path)


def _as_text_list(value: object) -> list[str]:
    return (
        [item if isinstance(item, str) else "" for item in value] if isinstance(value, list) else []
    )


def build_steps(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return entries as steps, numbered from 1."""
    steps_: list[Record] = []
    ids = CallIds(_MAX_NAME_CHARS)
    open_calls: dict[str, str] = {}
    for entry in entries:
        message = entry.message
        if message.role == "tool":
            call_id_ = open_calls.get(message.tool_call_id or "")
            if call_id_ is None or "tool_calls" not in steps_[-1]:
                steps_.append({"source": "system", "message": ""})
            _add_result(steps_[-1], entry, call_id_)
        else:
            open_calls, step = {}, _build_step(entry)
            calls = []
            for call in message.tool_calls or ():
                wire = encode_tool_call(call, ids, _MAX_NAME_CHARS)
                open_calls.setdefault(call.id, wire.id)
                calls.append(_build_call(call, wire.id, wire.name, wire.arguments))
            steps_.append({**step, "tool_calls": calls} if calls else step)
    return [{"step_id": number, **step} for number, step in enumerate(steps_, 1)]


def _build_step(entry: ConversationEntry) -> Record:
    message, source = entry.message, dict(entry.source or {})
    step: Record = {"source": "agent" if message.role == "assistant" else message.role}
    if entry.time is not None and normalize_time(entry.time):
        step["timestamp"] = entry.time
    step["message"] = _build_content(message.content)
    if message.role == "assistant":
        parts = message.content if isinstance(message.content, list) else []
        thoughts = [
            replace_surrogates(part.text) for part in parts if isinstance(part, ThinkingPart)
        ]
        if any(thoughts):
            step["reasoning_content"] = "\n\n".join(filter(None, thoughts))
        if isinstance(source.get("model"), str):
            step["model_name"] = replace_surrogates(source["model"])
        metrics = _build_metrics(get_object(source, "usage"))
        if metrics:
            step["metrics"] = metrics
    if source:
        step["extra"] = {METADATA_KEY: {"source": _portable_json(source)}}
    return step


def _portable_json(value: Any) -> Any:
    """Return a value as portable JSON."""
    return canonical.from_json(
        replace_surrogates(canonical.to_json_line(to_safe_json(value)).decode()).encode()
    )


def _build_metrics(usage: Record) -> Record:
    """Return usage in the terms of ATIF. Cached tokens are part of the prompt."""
    counted = {name: number for name in usage if (number := get_count(usage, name)) is not None}
    cached_counts = [counted.get(name) for name in _CACHED_NAMES]
    cached_counts += [
        get_count(get_object(usage, name), "cached_tokens") for name in _DETAILS_NAMES
    ]
    cached = next((number for number in cached_counts if number is not None), None)
    if "prompt_tokens" in counted or "completion_tokens" in counted:
        prompt, completion = counted.get("prompt_tokens"), counted.get("completion_tokens")
    elif "input_tokens" in counted:
        prompt, completion = counted["input_tokens"], counted.get("output_tokens")
        # This usage counts cached tokens beside the input; others include them.
        prompt += counted.get("cache_read_input_tokens", 0)
        prompt += counted.get("cache_creation_input_tokens", 0)
    else:
        return {}
    metrics = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}
    return {name: number for name, number in metrics.items() if number is not None}


def _build_call(call: ToolCall, id_: str, name: str, arguments: Record) -> Record:
    record: Record = {
        "tool_call_id": id_,
        "function_name": name,
        "arguments": to_safe_json(arguments),
    }
    text_ = call.function.arguments
    if (
        canonical.to_json_line(to_safe_json(arguments)).decode() != text_
        and replace_surrogates(text_) == text_
    ):
        record["extra"] = {METADATA_KEY: {"arguments": text_}}
    return record


def _add_result(step: Record, entry: ConversationEntry, call: str | None) -> None:
    message = entry.message
    is_call = "tool_calls" in step
    result: Record = {"source_call_id": call} if is_call else {}
    if message.content is not None:
        result["content"] = _build_content(message.content)
    metadata: Record = {"is_error": True} if message.is_error else {}
    if not is_call:
        metadata["call"] = call or replace_surrogates(message.tool_call_id or "unknown")
    if metadata:
        result["extra"] = {METADATA_KEY: metadata}
    step.setdefault("observation", {"results": []})["results"].append(result)
    extra = step.setdefault("extra", {}).setdefault(METADATA_KEY, {})
    extra.setdefault("times", []).append(entry.time)


def _build_content(content: Content) -> str | list[Record]:
    """Return a content in the form of ATIF: a text, or parts if it has an image."""
    if content is None or isinstance(content, str):
        return replace_surrogates(content or "")
    parts = [*_build_parts(content)]
    if any(part["type"] == "image" for part in parts):
        return parts
    return "\n\n".join(part["text"] for part in parts)


def _build_parts(content: Sequence[msgspec.Struct]) -> Iterator[Record]:
    for part in content:
        match part:
            case TextPart(text):
                yield {"type": "text", "text": replace_surrogates(text)}
            case ImagePart(media_type=str(kind)) if kind in _IMAGE_TYPES and (
                part.url or part.data
            ):
                path = replace_surrogates(part.url or f"data:{kind};base64,{part.data}")
                yield {"type": "image", "source": {"media_type": kind, "path": path}}
            case ImagePart():
                yield {
                    "type": "text",
                    "text": f"(an image: {replace_surrogates(part.media_type or '?')})",
                }


NAME = "atif-v1"
VERSION = "ATIF-v1.7"
_VERSION_PATTERN = re.compile(rb'"schema_version"\s*:\s*"ATIF-v1\.')
_MAX_DEPTH = 20
"""Subagents nested deeper are not read."""


def is_session_file(path: str, beginning: bytes) -> bool:
    """Whether a file is a trajectory, by its version, which stands late if members are sorted."""
    del path
    if not beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    is_like = b'"step_id"' in beginning and b'"agent"' in beginning and b'"source"' in beginning
    return bool(_VERSION_PATTERN.search(beginning)) or is_like


def iter_steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a trajectory and of its nested trajectories. Raises FormatError."""
    document = read_document(source, reading, NAME)
    if not isinstance(document.get("steps"), list) or not isinstance(document.get("agent"), dict):
        raise FormatError(NAME, "it has no agent or no steps")
    agent = get_object(document, "agent")
    reading.session_id = get_text(document, "session_id") or get_text(document, "trajectory_id")
    reading.version = " ".join(filter(None, (get_text(agent, "name"), get_text(agent, "version"))))
    reading.used_lines = reading.lines
    if get_text(document, "continued_trajectory_ref"):
        reading.notes.append(f"it continues in {get_text(document, 'continued_trajectory_ref')}")
    yield from _iter_steps(document, reading, StepBuilder(reading), "", 0)
    reading.tips = dict(sorted(reading.tips.items(), key=lambda tip: bool(tip[0])))


def _iter_steps(
    document: Record, reading: ReadReport, rounds: StepBuilder, path: str, depth: int
) -> Iterator[ImportStep]:
    nested = {
        get_text(trajectory, "trajectory_id"): trajectory
        for trajectory in get_objects(document, "subagent_trajectories")
    }
    for number, step in enumerate(get_objects(document, "steps"), 1):
        if get_text(step, "source") not in ("user", "agent", "system"):
            reading.count_uninterpreted(f"step/{get_text(step, 'source')}")
            continue
        step_with_model = _with_model(step, get_object(document, "agent"))
        yield from rounds.add(f"{path}{number}", rounds.head, entries_from_step(step_with_model))
        for name in _spawned_ids(step):
            trajectory = nested.pop(name, None)
            if trajectory is not None and depth < _MAX_DEPTH:
                yield from rounds.pause()
                yield from _iter_nested_steps(
                    trajectory, reading, rounds, f"{path}{number}.", depth + 1
                )
    for trajectory in nested.values():  # No step refers to these subagents.
        if depth < _MAX_DEPTH:
            yield from _iter_nested_steps(trajectory, reading, rounds, f"{path}end.", depth + 1)
    yield from rounds.end()


def _with_model(step: Record, agent: Record) -> Record:
    """Return a step with the agent's model, if the step has none."""
    if (
        get_text(step, "source") == "agent"
        and not get_text(step, "model_name")
        and agent.get("model_name")
    ):
        return {**step, "model_name": agent["model_name"]}
    return step


def _spawned_ids(step: Record) -> Iterator[str]:
    for result in get_objects(get_object(step, "observation"), "results"):
        for ref in get_objects(result, "subagent_trajectory_ref"):
            yield get_text(ref, "trajectory_id")


def _iter_nested_steps(
    document: Record, reading: ReadReport, above: StepBuilder, path: str, depth: int
) -> Iterator[ImportStep]:
    name = get_text(document, "trajectory_id") or path
    rounds = StepBuilder(reading, agent=name, origin=above.current, numbers=above.numbers)
    yield from _iter_steps(document, reading, rounds, f"{path}{name}.", depth)


def encode_trajectory(entries: Sequence[ConversationEntry], session_id: str = "") -> bytes | None:
    """Return a conversation as a trajectory. Return None for no entries: a trajectory has steps."""
    if not entries:
        return None
    steps_ = build_steps(entries)
    models = [step["model_name"] for step in steps_ if "model_name" in step]
    agent: dict[str, Any] = {"name": "harken", "version": "1"}
    if models:
        agent["model_name"] = models[-1]
    document: dict[str, Any] = {
        "schema_version": VERSION,
        "session_id": session_id or hash_raw(canonical.to_json_line(steps_))[4:40],
        "agent": agent,
        "steps": steps_,
        "final_metrics": _sum_metrics(steps_),
    }
    return canonical.to_json_line(document) + b"\n"


def _sum_metrics(steps_: Sequence[Record]) -> dict[str, Any]:
    metrics = [get_object(step, "metrics") for step in steps_]
    names = ("prompt_tokens", "completion_tokens", "cached_tokens")
    totals: dict[str, Any] = {"total_steps": len(steps_)}
    for name in names:
        counts = [step_metrics[name] for step_metrics in metrics if name in step_metrics]
        if counts:
            totals[f"total_{name}"] = sum(counts)
    return totals


def _read(data: bytes) -> list[ConversationEntry]:
    reading = ReadReport()
    steps_ = [
        step for step in iter_steps(SessionFile("", lambda: [data]), reading) if not step.agent
    ]
    return [entry for step in steps_ for entry in step.entries]


NATIVE = RuntimeFormat(name=NAME, runtime="atif", is_session_file=is_session_file, steps=iter_steps)
FORMAT = Format(name=NAME, media_type="application/json", reads=_read, writes=encode_trajectory)
