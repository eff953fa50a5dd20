"""Copilot CLI: the events of its sessions.

One idea: three kinds of events are what the model reads (messages of the system, the user and the
assistant), a fourth what its tools gave back. A subagent's are in the same file, under its name:
they are a conversation of their own, which begins where it was called.

Source: docs/formats/copilot-cli.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harken.core import canonical
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    get_count,
    get_object,
    get_objects,
    get_text,
    title_of,
    to_safe_json,
)
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.json_lines import read_records, time_of
from harken.formats.runtimes.steps import INSTRUCTIONS, PROMPT, SYSTEM, StepBuilder
from harken.formats.tool_calls import content_of, spoken

NAME = "copilot-cli-v1"
OWN = "copilot"
_HIDDEN = ("reasoningOpaque", "encryptedContent", "reasoningId")
"""What belongs to a thought: signed or encrypted, as the provider wants it back."""


def looks(path: str, head: bytes) -> bool:
    """Whether a file holds events of Copilot CLI, by the first."""
    first = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0].replace(b" ", b"")
    return first.startswith(b"{") and b'"type":"session.start"' in first and b'"data"' in first


def steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Read the events of a session. Raises FormatError where no line is one."""
    session = _Session(reading)
    for line, record in read_records(source, reading):
        kind = get_text(record, "type")
        data = get_object(record, "data")
        session.is_one = session.is_one or ("." in kind and "data" in record)
        time = time_of(record.get("timestamp"))
        node = get_text(record, "id") or f"line {line.number}"
        if kind == "session.compaction_complete" and data.get("success") is not False:
            reading.used += 1
            told = get_text(data, "summaryContent")
            summary = [_said_by_client(told, time)]
            yield from session.main.compact(node, session.main.head, told, summary)
            continue
        entry = session.entry(kind, data, time, get_text(record, "id"))
        if entry is None:
            reading.keep(kind or "unknown")
            continue
        reading.used += 1
        agent = get_text(record, "agentId") or get_text(data, "parentToolCallId")
        if agent and agent not in session.agents:
            yield from session.main.pause()
        rounds = session.rounds(agent) if agent else session.main
        yield from rounds.add(node, rounds.head, [entry])
    if not session.is_one:
        raise FormatError(NAME, "no line of it is an event")
    for rounds in (session.main, *session.agents.values()):
        yield from rounds.end()


@dataclass(slots=True)
class _Session:
    """What the events of a session said so far."""

    reading: ReadReport
    is_one: bool = False
    main: StepBuilder = field(init=False)
    agents: dict[str, StepBuilder] = field(default_factory=dict)
    instructed: str = ""
    """What the system said last: it says it again before each prompt."""

    def __post_init__(self) -> None:
        """Begin with the main conversation."""
        self.main = StepBuilder(self.reading)

    def rounds(self, agent: str) -> StepBuilder:
        """Return the conversation of a subagent, which begins where the main one is."""
        if agent not in self.agents:
            main = self.main
            self.agents[agent] = StepBuilder(
                self.reading, agent=agent, origin=main.step, names=main.names
            )
        return self.agents[agent]

    def entry(
        self, kind: str, data: Record, time: str | None, id_: str
    ) -> ConversationEntry | None:
        """Return what the model reads of an event; None: it reads nothing."""
        source: Record = {"id": id_} if id_ else {}
        match kind:
            case "session.start" | "session.resume":
                self._describe(data)
            case "system.message" if get_text(data, "content") != self.instructed:
                self.instructed = get_text(data, "content")
                source["kind"] = INSTRUCTIONS
                return ConversationEntry(Message("system", self.instructed), time, source)
            case "system.notification":
                return _said_by_client(get_text(data, "content"), time, source)
            case "user.message":
                return self._asked(data, time, source)
            case "assistant.message":
                return _answer(data, time, source)
            case "tool.execution_complete":
                return _result(data, time, source)
        return None

    def _describe(self, data: Record) -> None:
        reading = self.reading
        reading.session_id = reading.session_id or get_text(data, "sessionId")
        reading.version = get_text(data, "copilotVersion") or reading.version
        reading.folder = reading.folder or get_text(get_object(data, "context"), "cwd")

    def _asked(self, data: Record, time: str | None, source: Record) -> ConversationEntry:
        """Return a prompt as the model reads it: Copilot adds the time and reminders to it."""
        typed = get_text(data, "content")
        read = get_text(data, "transformedContent") or typed
        is_typed = get_text(data, "source") in ("", "user")
        source = {"kind": PROMPT if is_typed else SYSTEM, **source}
        if read != typed:
            source["typed"] = typed
        if is_typed:
            self.reading.title = self.reading.title or title_of(typed)
        parts: list[Part] = [TextPart(read)]
        for one in get_objects(data, "attachments"):
            kind = get_text(one, "mimeType")
            if (
                get_text(one, "type") == "blob"
                and kind.startswith("image/")
                and get_text(one, "data")
            ):
                parts.append(ImagePart(kind, get_text(one, "data")))
        return ConversationEntry(Message("user", content_of(parts)), time, source)


def _said_by_client(told: str, time: str | None, source: Record | None = None) -> ConversationEntry:
    return ConversationEntry(Message("user", told), time, {"kind": SYSTEM, **(source or {})})


def _answer(data: Record, time: str | None, source: Record) -> ConversationEntry:
    said: list[Part | ToolCall] = []
    hidden = {name: to_safe_json(data[name]) for name in _HIDDEN if data.get(name)}
    if get_text(data, "reasoningText") or hidden:
        meta = {OWN: hidden} if hidden else None
        said.append(ThinkingPart(get_text(data, "reasoningText"), meta))
    if get_text(data, "content"):
        said.append(TextPart(get_text(data, "content")))
    for call in get_objects(data, "toolRequests"):
        given = call.get("arguments")
        written = given if isinstance(given, str) else canonical.to_json_line(given or {}).decode()
        kind = "custom" if get_text(call, "type") == "custom" else "function"
        function = FunctionCall(get_text(call, "name"), written)
        said.append(ToolCall(get_text(call, "toolCallId"), function, kind))
    for name, ours in (("model", "model"), ("messageId", "message_id"), ("apiCallId", "call_id")):
        if get_text(data, name):
            source[ours] = get_text(data, name)
    if get_count(data, "outputTokens"):
        source["usage"] = {"output_tokens": get_count(data, "outputTokens")}
    return ConversationEntry(spoken(said), time, source or None)


def _result(data: Record, time: str | None, source: Record) -> ConversationEntry:
    """Return the result of a call; of one that failed, why."""
    result, failure = get_object(data, "result"), get_object(data, "error")
    told = (
        get_text(result, "content")
        or get_text(result, "text_result_for_llm")
        or get_text(failure, "message")
    )
    parts: list[Part] = [TextPart(told)]
    for block in get_objects(result, "contents"):
        kind, held = get_text(block, "mimeType"), get_text(block, "data")
        if get_text(block, "type") == "image" and held:
            parts.append(ImagePart(kind or None, held))
    failed = data.get("success") is False or bool(failure)
    message = Message(
        "tool", content_of(parts), tool_call_id=get_text(data, "toolCallId"), is_error=failed
    )
    return ConversationEntry(message, time, source or None)


NATIVE = RuntimeFormat(name=NAME, runtime="copilot", looks=looks, steps=steps)
