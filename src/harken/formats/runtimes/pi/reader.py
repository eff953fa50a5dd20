"""The reader of Pi sessions, which are trees of entries, of all versions.

A file is read twice. The first pass builds the tree: its branches, and the entries that a
compaction keeps. The second pass creates a step for each round and at each branch, and holds in
memory only the entries that a compaction will repeat.

Source: docs/formats/pi.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from harken.core import structs
from harken.formats.base import ConversationEntry, Format
from harken.formats.json_records import Record, get_count, get_object, get_text, truncate_title
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
    read_conversation,
)
from harken.formats.runtimes.json_lines import normalize_time, read_records
from harken.formats.runtimes.pi.messages import (
    build_branch_summary_entry,
    build_injected_entry,
    build_resume_request,
    build_summary_entry,
    parse_entry,
)
from harken.formats.runtimes.pi.tree import (
    NAME,
    NodeLog,
    PiNode,
    SessionTree,
    TreeState,
    build_tree,
)
from harken.formats.runtimes.pi.writer import write_export, write_session
from harken.formats.runtimes.read_point import decode_state


def is_session_file(path: str, head: bytes) -> bool:
    """Whether a file is a session of Pi, by its header."""
    first = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", 1)[0].replace(b" ", b"")
    is_header = first.startswith(b"{") and b'"type":"session"' in first
    return is_header and b'"cwd"' in first and b'"id"' in first


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a session. Raises FormatError if the file has no header."""
    saved = None if source.point is None else decode_state(source.point, TreeState)
    tree = build_tree(source, report, saved)
    session = _Session(report, tree)
    builder = tree.create_builder(report, saved)
    log = NodeLog(saved)
    for line, record in read_records(source, report):
        id_ = log.next_id(record)
        if get_text(record, "type") == "session":
            session.begin(record)
            continue
        node = PiNode(line.number, id_, tree.parents.get(line.number))
        if get_text(record, "type") == "compaction":
            kept_entries = session.compaction(node, record)
            yield from builder.compact(
                node.key, node.parent_key, get_text(record, "summary"), kept_entries
            )
        else:
            entries = session.entries(node, record)
            if builder.begins_step(node.parent_key, entries) and report.needs_point(line.start):
                yield from builder.pause()
                log.set_point(report, line, builder)
            yield from builder.add(node.key, node.parent_key, entries)
        log.add(node)
    yield from builder.end()


class _Session(msgspec.Struct):
    """Reads the entries of a session."""

    reading: ReadReport
    tree: SessionTree
    repeated_entries: dict[int, ConversationEntry] = msgspec.field(default_factory=dict)
    """The entries that compactions will repeat, by number."""

    def begin(self, header: Record) -> None:
        """Read the header."""
        report = self.reading
        report.count_uninterpreted("session")
        report.session_id = report.session_id or get_text(header, "id")
        report.folder = report.folder or get_text(header, "cwd")
        report.version = report.version or str(get_count(header, "version") or 1)
        origin = get_text(header, "parentSession") or get_text(header, "branchedFrom")
        report.parent = report.parent or origin

    def compaction(self, node: PiNode, record: Record) -> list[ConversationEntry]:
        """Return a summary, then the earlier entries that are kept."""
        self.reading.used_lines += 1
        summary_entry = build_summary_entry(
            get_text(record, "summary"), normalize_time(record.get("timestamp"))
        )
        numbers = self.tree.kept_numbers.get(node.number, ())
        earlier = self.repeated_entries
        return [
            _with_id(summary_entry, node),
            *(earlier[number] for number in numbers if number in earlier),
        ]

    def entries(self, node: PiNode, record: Record) -> list[ConversationEntry]:
        """Return the entries of a record. Empty if the model does not read it."""
        kind = get_text(record, "type")
        entry = self._parse_entry(kind, record, normalize_time(record.get("timestamp")))
        if entry is None:
            role = get_text(get_object(record, "message"), "role")
            self.reading.count_uninterpreted(f"{kind}/{role}" if role else kind or "unknown")
            return []
        self.reading.used_lines += 1
        entry = _with_id(entry, node)
        if node.number in self.tree.repeated:
            self.repeated_entries[node.number] = entry
        return [entry]

    def _parse_entry(self, kind: str, record: Record, time: str | None) -> ConversationEntry | None:
        match kind:
            case "message":
                message = get_object(record, "message")
                return parse_entry(message, time or normalize_time(message.get("timestamp")))
            case "custom_message":
                return build_injected_entry(
                    get_text(record, "customType"), record.get("content"), time
                )
            case "branch_summary" if get_text(record, "summary"):
                return build_branch_summary_entry(get_text(record, "summary"), time)
            case "session_info" if get_text(record, "name"):
                self.reading.title = truncate_title(get_text(record, "name"))
        return None


def _with_id(entry: ConversationEntry, node: PiNode) -> ConversationEntry:
    return structs.replace(entry, source={**(entry.source or {}), "id": node.id})


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="pi",
    is_session_file=is_session_file,
    steps=iter_steps,
    build_resume_request=build_resume_request,
    writes=write_session,
)
FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=partial(read_conversation, iter_steps),
    writes=write_export,
)
