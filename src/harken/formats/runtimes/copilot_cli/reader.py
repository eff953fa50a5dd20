"""The reader of Copilot CLI sessions.

The model reads three kinds of events (system, user and assistant messages) and the results of
tools. Events of a subagent are in the same file, with its name: they are a separate conversation,
which begins at the call.

Source: docs/formats/copilot-cli.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from blake3 import blake3

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
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
    SourceLine,
)
from harken.formats.runtimes.json_lines import normalize_time, read_records
from harken.formats.runtimes.read_point import decode_state, encode_state
from harken.formats.runtimes.step_state import BuilderState, build_totals
from harken.formats.runtimes.steps import (
    INSTRUCTIONS,
    PROMPT,
    SYSTEM,
    StepBuilder,
    StepNumbers,
    can_save,
)
from harken.formats.tool_calls import build_assistant_message, normalize_content

NAME = "copilot-cli-v1"
METADATA_KEY = "copilot"
_END_KINDS = ("subagent.completed", "subagent.failed")
_MAX_STATE_BYTES = 512 * 1024
"""The maximum size of a state, which has the entries of open steps."""
_RETRY_BYTES = 1024 * 1024
_DIGEST_BYTES = 16
_HIDDEN_MEMBERS = ("reasoningOpaque", "encryptedContent", "reasoningId")
"""Members of thinking, signed or encrypted, that the provider requires back."""


def is_session_file(path: str, head: bytes) -> bool:
    """Whether a file holds events of Copilot CLI, by the first event."""
    first = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0].replace(b" ", b"")
    return first.startswith(b"{") and b'"type":"session.start"' in first and b'"data"' in first


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a session. Raises FormatError if no line is an event."""
    session = _Session(report)
    if source.point is not None:
        session.restore(decode_state(source.point, CopilotState))
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
        last_system = session.last_system
        entry = session.entry(kind, data, time, get_text(record, "id"))
        if entry is None:
            report.count_uninterpreted(kind or "unknown")
            if kind in _END_KINDS:
                yield from session.end_agent(get_text(record, "agentId"), data)
            continue
        report.used_lines += 1
        agent = get_text(record, "agentId") or get_text(data, "parentToolCallId")
        if agent and agent not in session.agents:
            yield from session.main.pause()
            session.add_agent(agent)
        builder = session.agents[agent] if agent else session.main
        if builder.begins_step(builder.head, [entry]) and report.needs_point(line.start):
            yield from builder.pause()
            session.set_point(line, last_system)
        yield from builder.add(node, builder.head, [entry])
    if not session.is_session:
        raise FormatError(NAME, "it has no event")
    for builder in (session.main, *session.agents.values()):
        yield from builder.end()


class CopilotState(msgspec.Struct, array_like=True):
    """The conversations before a read point."""

    last_system: bytes
    steps: int
    main: BuilderState
    agents: list[BuilderState]


@dataclass(slots=True)
class _Session:
    """The state of reading a session."""

    reading: ReadReport
    is_session: bool = False
    main: StepBuilder = field(init=False)
    agents: dict[str, StepBuilder] = field(default_factory=dict)
    last_system: bytes = b""
    """The hash of the last system message, which is repeated before each prompt."""
    retry_start: int = 0
    """No read point is set before this offset, because the last state was too large."""

    def __post_init__(self) -> None:
        """Begin with the main conversation."""
        self.main = StepBuilder(self.reading)

    def restore(self, state: CopilotState) -> None:
        """Continue from a read point."""
        report, numbers = self.reading, StepNumbers(state.steps)
        report.tips, report.branches = {}, []
        self.is_session, self.last_system = True, state.last_system
        self.main = StepBuilder.restore(state.main, report, numbers)
        self.agents = {
            agent.agent: StepBuilder.restore(agent, report, numbers) for agent in state.agents
        }

    def add_agent(self, agent: str) -> None:
        """Add a subagent, which begins at the current main step."""
        main = self.main
        self.agents[agent] = StepBuilder(
            self.reading, agent=agent, origin=main.step, numbers=main.numbers
        )

    def end_agent(self, agent: str, data: Record) -> Iterator[ImportStep]:
        """End the step of a subagent that has ended."""
        builder = self.agents.get(agent or get_text(data, "toolCallId"))
        if builder is not None:
            yield from builder.pause()

    def set_point(self, line: SourceLine, last_system: bytes) -> None:
        """Set the read point to a line that begins a step, and that is counted already.

        Steps of other agents may be open. last_system: that before the line.
        """
        report, builders = self.reading, (self.main, *self.agents.values())
        if line.start < self.retry_start or not can_save(builders):
            return
        try:
            states = [builder.save(is_tree=False) for builder in builders]
        except ValueError:  # An import of the entry fails, too.
            return
        main, *agents = states
        state = encode_state(CopilotState(last_system, self.main.numbers.last, main, agents))
        if state is None or len(state) > _MAX_STATE_BYTES:
            self.retry_start = line.start + _RETRY_BYTES
        else:
            lines, used_lines = report.lines - 1, report.used_lines - 1
            totals = build_totals(report, states, lines=lines, used_lines=used_lines)
            step_ids = [step for builder_state in states for step in builder_state.list_steps()]
            report.set_point(line, state, totals, step_ids)

    def entry(
        self, kind: str, data: Record, time: str | None, id_: str
    ) -> ConversationEntry | None:
        """Return the entry of an event. Return None if the model does not read the event."""
        source: Record = {"id": id_} if id_ else {}
        match kind:
            case "session.start" | "session.resume":
                self._read_metadata(data)
            case "system.message":
                text = get_text(data, "content")
                digest = _hash_text(text)
                if digest != self.last_system:
                    self.last_system, source["kind"] = digest, INSTRUCTIONS
                    return ConversationEntry(Message("system", text), time, source)
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


def _hash_text(text: str) -> bytes:
    """Return a hash of a text. Empty for an empty text."""
    return blake3(text.encode("utf-8", "surrogatepass")).digest(_DIGEST_BYTES) if text else b""


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
