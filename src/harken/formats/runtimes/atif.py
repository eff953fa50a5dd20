"""ATIF, the Agent Trajectory Interchange Format of Harbor: 1.x is read, 1.7 written.

One idea: a trajectory is a document, and documents of subagents stand in it or beside it. Those
that stand in it become agents of their own, spawned where a result names them.

Source: docs/formats/atif.md.

Steps of ATIF as entries, and entries as steps.

One idea: a step of an agent is an answer with the results of its calls; so it is several messages,
and several messages are one step. What a step cannot say of an entry (native ids, usage as its
runtime told it) stands in its `extra`, under `harken`, and is taken from there again.

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
from harken.formats.runtimes.json_lines import read_document, time_of
from harken.formats.runtimes.steps import StepBuilder
from harken.formats.tool_calls import CallIds, clean, spoken, wire_call

OWN = "harken"
"""The member of `extra` that holds what only Harken knows."""


_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


_DATA = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)


_ROLES = {"user": "user", "system": "system"}


_LENGTH = 256


def entries_of(step: Record) -> list[ConversationEntry]:
    """Return the messages of a step: what was said, then the results."""
    time, extra = time_of(step.get("timestamp")), get_object(step, "extra")
    own = get_object(extra, OWN)
    source = {**_told(step), **get_object(own, "source")}
    found: list[ConversationEntry] = []
    said = _said(step)
    if said is not None:
        found.append(ConversationEntry(said, time, source or None))
    times = _texts(own.get("times"))
    for at, result in enumerate(get_objects(get_object(step, "observation"), "results")):
        answer = _result(result, is_call=bool(step.get("tool_calls")))
        when = time_of(times[at]) if at < len(times) else None
        found.append(ConversationEntry(answer, when or time, {"kind": "tool_result"}))
    return found


def _said(step: Record) -> Message | None:
    role = _ROLES.get(get_text(step, "source"))
    content = _content(step.get("message"))
    if role is not None:
        is_event = "observation" in step and not content
        return None if is_event else Message(role, content or "")  # type: ignore[arg-type]
    thought = get_text(step, "reasoning_content")
    parts: list[Part] = [ThinkingPart(thought)] if thought else []
    if isinstance(content, str):
        parts += [TextPart(content)] if content else []
    else:
        parts += [part for part in content or () if not isinstance(part, ThinkingPart)]  # type: ignore[misc]
    return spoken([*parts, *map(_call, get_objects(step, "tool_calls"))])


def _told(step: Record) -> dict[str, Any]:
    """Return what a step says beside its words, as `source` has it."""
    found: dict[str, Any] = {}
    kinds = {"user": "prompt", "agent": "response"}
    kind = kinds.get(get_text(step, "source"))
    if kind:
        found["kind"] = kind
    model, metrics = get_text(step, "model_name"), get_object(step, "metrics")
    if model:
        found["model"] = model
    usage = {name: value for name, value in metrics.items() if name in _USAGE}
    if usage:
        found["usage"] = to_safe_json(usage)
    if step.get("is_copied_context") is True:
        found["copied"] = True
    return found


_CACHED = ("cache_read_input_tokens", "cache_read_tokens", "cached_input_tokens", "cached_tokens")
"""How usage calls what was read from a cache."""


_DETAILS = ("input_tokens_details", "prompt_tokens_details")
"""Where some of them say it."""


_USAGE = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra")


def _call(call: Record) -> ToolCall:
    arguments = canonical.to_json_line(to_safe_json(get_object(call, "arguments"))).decode()
    written = get_object(get_object(call, "extra"), OWN).get("arguments")
    if isinstance(written, str):
        arguments = written
    id_, name = get_text(call, "tool_call_id"), get_text(call, "function_name")
    return ToolCall(id_, FunctionCall(name, arguments))


def _result(result: Record, *, is_call: bool) -> Message:
    extra = get_object(get_object(result, "extra"), OWN)
    id_ = get_text(result, "source_call_id") if is_call else get_text(extra, "call")
    content = _content(result.get("content"))
    if not id_ and not is_call:
        return Message("user", content or "")
    is_error = extra.get("is_error") is True
    return Message("tool", content, tool_call_id=id_, is_error=is_error)


def _content(value: object) -> Content:
    if value is None or isinstance(value, str):
        return value
    return [_part(one) for one in get_objects({"parts": value}, "parts")]


def _part(part: Record) -> TextPart | ImagePart:
    if get_text(part, "type") != "image":
        return TextPart(get_text(part, "text") or get_text(get_object(part, "source"), "path"))
    source = get_object(part, "source")
    path, media_type = get_text(source, "path"), get_text(source, "media_type") or None
    data = _DATA.fullmatch(path)
    if data is not None:
        return ImagePart(media_type or data[1] or None, data[2])
    return ImagePart(media_type, url=path)


def _texts(value: object) -> list[str]:
    return [one if isinstance(one, str) else "" for one in value] if isinstance(value, list) else []


def steps_of(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return entries as steps, numbered from 1."""
    found: list[Record] = []
    ids = CallIds(_LENGTH)
    open_calls: dict[str, str] = {}
    for entry in entries:
        message = entry.message
        if message.role == "tool":
            known = open_calls.get(message.tool_call_id or "")
            if known is None or "tool_calls" not in found[-1]:
                found.append({"source": "system", "message": ""})
            _add_result(found[-1], entry, known)
        else:
            open_calls, step = {}, _step(entry)
            calls = []
            for call in message.tool_calls or ():
                wire = wire_call(call, ids, _LENGTH)
                open_calls.setdefault(call.id, wire.id)
                calls.append(_written_call(call, wire.id, wire.name, wire.arguments))
            found.append({**step, "tool_calls": calls} if calls else step)
    return [{"step_id": at, **step} for at, step in enumerate(found, 1)]


def _step(entry: ConversationEntry) -> Record:
    message, source = entry.message, dict(entry.source or {})
    step: Record = {"source": "agent" if message.role == "assistant" else message.role}
    if entry.time is not None and time_of(entry.time):
        step["timestamp"] = entry.time
    step["message"] = _written(message.content)
    if message.role == "assistant":
        parts = message.content if isinstance(message.content, list) else []
        thoughts = [clean(part.text) for part in parts if isinstance(part, ThinkingPart)]
        if any(thoughts):
            step["reasoning_content"] = "\n\n".join(filter(None, thoughts))
        if isinstance(source.get("model"), str):
            step["model_name"] = clean(source["model"])
        metrics = _metrics(get_object(source, "usage"))
        if metrics:
            step["metrics"] = metrics
    if source:
        step["extra"] = {OWN: {"source": _sayable(source)}}
    return step


def _sayable(value: Any) -> Any:
    """Return a value as JSON that everybody reads."""
    return canonical.from_json(clean(canonical.to_json_line(to_safe_json(value)).decode()).encode())


def _metrics(usage: Record) -> Record:
    """Return usage in the terms of ATIF: what was read from a cache is a part of the prompt."""
    counted = {name: number for name in usage if (number := get_count(usage, name)) is not None}
    told = [counted.get(name) for name in _CACHED]
    told += [get_count(get_object(usage, name), "cached_tokens") for name in _DETAILS]
    cached = next((number for number in told if number is not None), None)
    if "prompt_tokens" in counted or "completion_tokens" in counted:
        prompt, completion = counted.get("prompt_tokens"), counted.get("completion_tokens")
    elif "input_tokens" in counted:
        prompt, completion = counted["input_tokens"], counted.get("output_tokens")
        # Beside the input, where others count it in.
        prompt += counted.get("cache_read_input_tokens", 0)
        prompt += counted.get("cache_creation_input_tokens", 0)
    else:
        return {}
    found = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}
    return {name: number for name, number in found.items() if number is not None}


def _written_call(call: ToolCall, id_: str, name: str, arguments: Record) -> Record:
    written: Record = {
        "tool_call_id": id_,
        "function_name": name,
        "arguments": to_safe_json(arguments),
    }
    text_ = call.function.arguments
    if canonical.to_json_line(to_safe_json(arguments)).decode() != text_ and clean(text_) == text_:
        written["extra"] = {OWN: {"arguments": text_}}
    return written


def _add_result(step: Record, entry: ConversationEntry, call: str | None) -> None:
    message = entry.message
    is_call = "tool_calls" in step
    result: Record = {"source_call_id": call} if is_call else {}
    if message.content is not None:
        result["content"] = _written(message.content)
    own: Record = {"is_error": True} if message.is_error else {}
    if not is_call:
        own["call"] = call or clean(message.tool_call_id or "unknown")
    if own:
        result["extra"] = {OWN: own}
    step.setdefault("observation", {"results": []})["results"].append(result)
    extra = step.setdefault("extra", {}).setdefault(OWN, {})
    extra.setdefault("times", []).append(entry.time)


def _written(content: Content) -> str | list[Record]:
    """Return a content as ATIF says it: a text, or parts where there is an image."""
    if content is None or isinstance(content, str):
        return clean(content or "")
    parts = [*_written_parts(content)]
    if any(part["type"] == "image" for part in parts):
        return parts
    return "\n\n".join(part["text"] for part in parts)


def _written_parts(content: Sequence[msgspec.Struct]) -> Iterator[Record]:
    for part in content:
        match part:
            case TextPart(said):
                yield {"type": "text", "text": clean(said)}
            case ImagePart(media_type=str(kind)) if kind in _IMAGES and (part.url or part.data):
                path = clean(part.url or f"data:{kind};base64,{part.data}")
                yield {"type": "image", "source": {"media_type": kind, "path": path}}
            case ImagePart():
                yield {"type": "text", "text": f"(an image: {clean(part.media_type or '?')})"}


NAME = "atif-v1"
VERSION = "ATIF-v1.7"
_LOOKS = re.compile(rb'"schema_version"\s*:\s*"ATIF-v1\.')
_DEPTH = 20
"""Subagents of subagents that stand deeper are not read."""


def looks(path: str, beginning: bytes) -> bool:
    """Whether a file is a trajectory, by its version; where members are sorted it stands late."""
    del path
    if not beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    is_like = b'"step_id"' in beginning and b'"agent"' in beginning and b'"source"' in beginning
    return bool(_LOOKS.search(beginning)) or is_like


def steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a trajectory, and of those inside it. Raises FormatError."""
    whole = read_document(source, reading, NAME)
    if not isinstance(whole.get("steps"), list) or not isinstance(whole.get("agent"), dict):
        raise FormatError(NAME, "it has no agent or no steps")
    agent = get_object(whole, "agent")
    reading.session_id = get_text(whole, "session_id") or get_text(whole, "trajectory_id")
    reading.version = " ".join(filter(None, (get_text(agent, "name"), get_text(agent, "version"))))
    reading.used = reading.lines
    if get_text(whole, "continued_trajectory_ref"):
        reading.notes.append(f"it goes on in {get_text(whole, 'continued_trajectory_ref')}")
    yield from _steps(whole, reading, StepBuilder(reading), "", 0)
    reading.tips = dict(sorted(reading.tips.items(), key=lambda tip: bool(tip[0])))


def _steps(
    whole: Record, reading: ReadReport, rounds: StepBuilder, path: str, depth: int
) -> Iterator[ImportStep]:
    inside = {
        get_text(one, "trajectory_id"): one for one in get_objects(whole, "subagent_trajectories")
    }
    for at, step in enumerate(get_objects(whole, "steps"), 1):
        if get_text(step, "source") not in ("user", "agent", "system"):
            reading.keep(f"step/{get_text(step, 'source')}")
            continue
        said = _of_model(step, get_object(whole, "agent"))
        yield from rounds.add(f"{path}{at}", rounds.head, entries_of(said))
        for name in _spawned(step):
            one = inside.pop(name, None)
            if one is not None and depth < _DEPTH:
                yield from rounds.pause()
                yield from _inside(one, reading, rounds, f"{path}{at}.", depth + 1)
    for one in inside.values():  # nobody says where they were spawned
        if depth < _DEPTH:
            yield from _inside(one, reading, rounds, f"{path}end.", depth + 1)
    yield from rounds.end()


def _of_model(step: Record, agent: Record) -> Record:
    """Return a step with the model that it has from the agent."""
    if (
        get_text(step, "source") == "agent"
        and not get_text(step, "model_name")
        and agent.get("model_name")
    ):
        return {**step, "model_name": agent["model_name"]}
    return step


def _spawned(step: Record) -> Iterator[str]:
    for result in get_objects(get_object(step, "observation"), "results"):
        for ref in get_objects(result, "subagent_trajectory_ref"):
            yield get_text(ref, "trajectory_id")


def _inside(
    whole: Record, reading: ReadReport, above: StepBuilder, path: str, depth: int
) -> Iterator[ImportStep]:
    name = get_text(whole, "trajectory_id") or path
    rounds = StepBuilder(reading, agent=name, origin=above.current, names=above.names)
    yield from _steps(whole, reading, rounds, f"{path}{name}.", depth)


def written(entries: Sequence[ConversationEntry], session_id: str = "") -> bytes | None:
    """Return a conversation as a trajectory; None where nothing is in it: that has no steps."""
    if not entries:
        return None
    listed = steps_of(entries)
    models = [step["model_name"] for step in listed if "model_name" in step]
    agent: dict[str, Any] = {"name": "harken", "version": "1"}
    if models:
        agent["model_name"] = models[-1]
    whole: dict[str, Any] = {
        "schema_version": VERSION,
        "session_id": session_id or hash_raw(canonical.to_json_line(listed))[4:40],
        "agent": agent,
        "steps": listed,
        "final_metrics": _total(listed),
    }
    return canonical.to_json_line(whole) + b"\n"


def _total(listed: Sequence[Record]) -> dict[str, Any]:
    metrics = [get_object(step, "metrics") for step in listed]
    names = ("prompt_tokens", "completion_tokens", "cached_tokens")
    found: dict[str, Any] = {"total_steps": len(listed)}
    for name in names:
        counts = [one[name] for one in metrics if name in one]
        if counts:
            found[f"total_{name}"] = sum(counts)
    return found


def _reads(data: bytes) -> list[ConversationEntry]:
    reading = ReadReport()
    found = [step for step in steps(SessionFile("", lambda: [data]), reading) if not step.agent]
    return [entry for step in found for entry in step.entries]


NATIVE = RuntimeFormat(name=NAME, runtime="atif", looks=looks, steps=steps)
FORMAT = Format(name=NAME, media_type="application/json", reads=_reads, writes=written)
