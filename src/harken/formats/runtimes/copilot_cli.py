"""The reader of Copilot CLI sessions.

The model reads three kinds of events (system, user and assistant messages) and the results of
tools. Events of a subagent are in the same file, with its name: they are a separate conversation,
which begins at the call.

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
    to_safe_json,
    truncate_title,
)
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.json_lines import normalize_time, read_records
from harken.formats.runtimes.steps import INSTRUCTIONS, PROMPT, SYSTEM, StepBuilder
from harken.formats.tool_calls import build_assistant_message, normalize_content

NAME = "copilot-cli-v1"
METADATA_KEY = "copilot"
_HIDDEN_MEMBERS = ("reasoningOpaque", "encryptedContent", "reasoningId")
"""Members of thinking, signed or encrypted, that the provider requires back."""


def is_session_file(path: str, head: bytes) -> bool:
    """Whether a file holds events of Copilot CLI, by the first event."""
    first = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0].replace(b" ", b"")
    return first.startswith(b"{") and b'"type":"session.start"' in first and b'"data"' in first


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a session. Raises FormatError if no line is an event."""
    session = _Session(report)
    for line, record in read_records(source, report):
        kind = get_text(record, "type")
        data = get_object(record, "data")
        session.is_session = session.is_session or ("." in kind and "data" in record)
        time = normalize_time(record.get("timestamp"))
        node = get_text(record, "id") or f"line {line.number}"
        if kind == "session.compaction_complete" and data.get("success") is not False:
            report.used_lines += 1
            text = get_text(data, "summaryContent")
            summary = [_client_entry(text, time)]
            yield from session.main.compact(node, session.main.head, text, summary)
            continue
        entry = session.entry(kind, data, time, get_text(record, "id"))
        if entry is None:
            report.count_uninterpreted(kind or "unknown")
            continue
        report.used_lines += 1
        agent = get_text(record, "agentId") or get_text(data, "parentToolCallId")
        if agent and agent not in session.agents:
            yield from session.main.pause()
        builder = session.get_builder(agent) if agent else session.main
        yield from builder.add(node, builder.head, [entry])
    if not session.is_session:
        raise FormatError(NAME, "it has no event")
    for builder in (session.main, *session.agents.values()):
        yield from builder.end()


@dataclass(slots=True)
class _Session:
    """The state of reading a session."""

    reading: ReadReport
    is_session: bool = False
    main: StepBuilder = field(init=False)
    agents: dict[str, StepBuilder] = field(default_factory=dict)
    last_system_text: str = ""
    """The last system message, which is repeated before each prompt."""

    def __post_init__(self) -> None:
        """Begin with the main conversation."""
        self.main = StepBuilder(self.reading)

    def get_builder(self, agent: str) -> StepBuilder:
        """Return the step builder of a subagent, which begins at the current main step."""
        if agent not in self.agents:
            main = self.main
            self.agents[agent] = StepBuilder(
                self.reading, agent=agent, origin=main.step, numbers=main.numbers
            )
        return self.agents[agent]

    def entry(
        self, kind: str, data: Record, time: str | None, id_: str
    ) -> ConversationEntry | None:
        """Return the entry of an event. Return None if the model does not read the event."""
        source: Record = {"id": id_} if id_ else {}
        match kind:
            case "session.start" | "session.resume":
                self._read_metadata(data)
            case "system.message" if get_text(data, "content") != self.last_system_text:
                self.last_system_text = get_text(data, "content")
                source["kind"] = INSTRUCTIONS
                return ConversationEntry(Message("system", self.last_system_text), time, source)
            case "system.notification":
                return _client_entry(get_text(data, "content"), time, source)
            case "user.message":
                return self._prompt_entry(data, time, source)
            case "assistant.message":
                return _answer_entry(data, time, source)
            case "tool.execution_complete":
                return _result_entry(data, time, source)
        return None

    def _read_metadata(self, data: Record) -> None:
        report = self.reading
        report.session_id = report.session_id or get_text(data, "sessionId")
        report.version = get_text(data, "copilotVersion") or report.version
        report.folder = report.folder or get_text(get_object(data, "context"), "cwd")

    def _prompt_entry(self, data: Record, time: str | None, source: Record) -> ConversationEntry:
        """Return a prompt with the time and the reminders that Copilot adds for the model."""
        typed = get_text(data, "content")
        sent_text = get_text(data, "transformedContent") or typed
        is_typed = get_text(data, "source") in ("", "user")
        source = {"kind": PROMPT if is_typed else SYSTEM, **source}
        if sent_text != typed:
            source["typed"] = typed
        if is_typed:
            self.reading.title = self.reading.title or truncate_title(typed)
        parts: list[Part] = [TextPart(sent_text)]
        for attachment in get_objects(data, "attachments"):
            kind = get_text(attachment, "mimeType")
            if (
                get_text(attachment, "type") == "blob"
                and kind.startswith("image/")
                and get_text(attachment, "data")
            ):
                parts.append(ImagePart(kind, get_text(attachment, "data")))
        return ConversationEntry(Message("user", normalize_content(parts)), time, source)


def _client_entry(text: str, time: str | None, source: Record | None = None) -> ConversationEntry:
    return ConversationEntry(Message("user", text), time, {"kind": SYSTEM, **(source or {})})


def _answer_entry(data: Record, time: str | None, source: Record) -> ConversationEntry:
    items: list[Part | ToolCall] = []
    hidden_members = {name: to_safe_json(data[name]) for name in _HIDDEN_MEMBERS if data.get(name)}
    if get_text(data, "reasoningText") or hidden_members:
        meta = {METADATA_KEY: hidden_members} if hidden_members else None
        items.append(ThinkingPart(get_text(data, "reasoningText"), meta))
    if get_text(data, "content"):
        items.append(TextPart(get_text(data, "content")))
    for call in get_objects(data, "toolRequests"):
        raw = call.get("arguments")
        arguments = raw if isinstance(raw, str) else canonical.to_json_line(raw or {}).decode()
        kind = "custom" if get_text(call, "type") == "custom" else "function"
        function = FunctionCall(get_text(call, "name"), arguments)
        items.append(ToolCall(get_text(call, "toolCallId"), function, kind))
    for name, source_name in (
        ("model", "model"),
        ("messageId", "message_id"),
        ("apiCallId", "call_id"),
    ):
        if get_text(data, name):
            source[source_name] = get_text(data, name)
    if get_count(data, "outputTokens"):
        source["usage"] = {"output_tokens": get_count(data, "outputTokens")}
    return ConversationEntry(build_assistant_message(items), time, source or None)


def _result_entry(data: Record, time: str | None, source: Record) -> ConversationEntry:
    """Return the result of a call, or the error of a failed one."""
    result, failure = get_object(data, "result"), get_object(data, "error")
    text = (
        get_text(result, "content")
        or get_text(result, "text_result_for_llm")
        or get_text(failure, "message")
    )
    parts: list[Part] = [TextPart(text)]
    for block in get_objects(result, "contents"):
        kind, image_data = get_text(block, "mimeType"), get_text(block, "data")
        if get_text(block, "type") == "image" and image_data:
            parts.append(ImagePart(kind or None, image_data))
    is_error = data.get("success") is False or bool(failure)
    message = Message(
        "tool",
        normalize_content(parts),
        tool_call_id=get_text(data, "toolCallId"),
        is_error=is_error,
    )
    return ConversationEntry(message, time, source or None)


NATIVE = RuntimeFormat(
    name=NAME, runtime="copilot", is_session_file=is_session_file, steps=iter_steps
)
