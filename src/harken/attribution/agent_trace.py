"""Agent Trace records: the origin of the lines of a git commit, in a format of several tools.

A record is written for a commit into the notes `refs/notes/agent-trace`, and read from there and
from `.agent-trace/traces.jsonl`, where other tools write it. Records are of unknown origin: an
invalid one is ignored, and a range with a hash of its content counts for that content only.

Source: https://github.com/cursor/agent-trace, version 0.1.0.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harken.attribution.explanation import EditWriter
from harken.attribution.git.blame import BlamedLine, decode_content
from harken.attribution.git.repository import GitRepository
from harken.attribution.line_origin import LineOrigin
from harken.attribution.records.recorded_edits import RecordedEdit

VERSION = "0.1.0"
TRACE_REF = "refs/notes/agent-trace"
TRACE_FILE = ".agent-trace/traces.jsonl"
_MAX_BYTES = 32 * 1024 * 1024
_MAX_TEXT = 2000
_PROVIDERS = {
    "claude": "anthropic",
    "gemini": "google",
    "grok": "xai",
    **dict.fromkeys(("gpt", "o1", "o3", "o4", "codex"), "openai"),
}
_Number = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
_Text = Annotated[str, msgspec.Meta(max_length=_MAX_TEXT)]


class _Contributor(msgspec.Struct):
    type: _Text
    model_id: _Text = ""


class _Range(msgspec.Struct):
    start_line: _Number
    end_line: _Number
    content_hash: _Text = ""
    contributor: _Contributor | None = None


class _Conversation(msgspec.Struct):
    ranges: list[_Range]
    url: _Text = ""
    contributor: _Contributor | None = None


class _File(msgspec.Struct):
    path: _Text
    conversations: list[_Conversation]


class _Revision(msgspec.Struct):
    revision: _Text


class _Tool(msgspec.Struct):
    name: _Text = ""


class _Record(msgspec.Struct):
    version: _Text
    files: list[_File]
    vcs: _Revision | None = None
    tool: _Tool | None = None


class TracedRange(msgspec.Struct, frozen=True):
    """The origin of lines of a commit, as a record says. All texts are untrusted."""

    commit: str
    path: str
    first: int
    last: int
    contributor: str
    """`human`, `ai`, `mixed` or `unknown`."""
    model: str
    url: str
    tool: str
    content_hash: str

    def covers(self, line: BlamedLine) -> bool:
        """Whether the range has a line, at its place in its commit."""
        is_inside = self.first <= line.original <= self.last
        return is_inside and line.commit.id == self.commit and line.commit.path == self.path


def build_record(
    commit: str,
    files: Iterable[tuple[str, Sequence[LineOrigin]]],
    writers: Mapping[int, EditWriter],
    tool_version: str,
) -> dict[str, Any]:
    """Return the record of the lines that a commit added. Lines without an edit are left out.

    `writers`: by the id of the row of their edit.
    """
    return {
        "version": VERSION,
        "id": str(uuid.uuid4()),
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "vcs": {"type": "git", "revision": commit},
        "tool": {"name": "harken", "version": tool_version},
        "files": [
            {"path": path, "conversations": conversations}
            for path, origins in files
            if (conversations := [*_conversations(origins, writers)])
        ],
    }


def _conversations(
    origins: Sequence[LineOrigin], writers: Mapping[int, EditWriter]
) -> Iterator[dict[str, Any]]:
    """Yield the ranges of each message that wrote lines of a file."""
    runs: dict[tuple[str, str, int], list[list[LineOrigin]]] = {}
    previous: tuple[str, str, int] | None = None
    for origin in origins:
        key = None
        if origin.edit is not None:
            key = (_contributor_type(origin), origin.edit.row.commit, origin.edit.row.position)
            group = runs.setdefault(key, [])
            is_next = group and group[-1][-1].line.number == origin.line.number - 1
            if key == previous and is_next:
                group[-1].append(origin)
            else:
                group.append([origin])
        previous = key
    for (kind, _, _), groups in runs.items():
        edit = groups[0][0].edit
        assert edit is not None
        writer = writers.get(edit.row.id)
        model = "" if writer is None else writer.model
        contributor = {"type": kind, **({"model_id": model_id(model)} if model else {})}
        yield {
            "url": conversation_url(edit),
            "contributor": contributor,
            "ranges": [
                {
                    "start_line": run[0].line.number,
                    "end_line": run[-1].line.number,
                    "content_hash": hash_lines([origin.line.text for origin in run]),
                }
                for run in groups
            ],
        }


def _contributor_type(origin: LineOrigin) -> str:
    if origin.is_agent:
        return "ai"
    return "mixed" if origin.confidence == "similar" else "unknown"


def conversation_url(edit: RecordedEdit) -> str:
    """Return the address of the message of an edit: its commit, and its position there."""
    return f"harken:{edit.row.commit}#{edit.row.position}"


def model_id(model: str) -> str:
    """Return a model as models.dev names it.

    >>> model_id("claude-opus-4-5-20251101"), model_id("local/tiny"), model_id("other")
    ('anthropic/claude-opus-4-5-20251101', 'local/tiny', 'other')
    """
    provider = _PROVIDERS.get(model.partition("-")[0])
    return model[:250] if "/" in model or provider is None else f"{provider}/{model}"[:250]


def hash_lines(lines: Sequence[str]) -> str:
    """Return the hash of the content of a range: of its lines, with a newline after each."""
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def write_note(repository: GitRepository, commit: str, record: dict[str, Any]) -> None:
    """Store the record of a commit in its note, in place of an earlier one. Raises ConfigError."""
    data = json.dumps(record, separators=(",", ":")).encode()
    repository.run("notes", f"--ref={TRACE_REF}", "add", "-f", "-F", "-", commit, stdin=data)


def read_ranges(repository: GitRepository, commits: Iterable[str]) -> list[TracedRange]:
    """Return the ranges of the records of commits, of notes first.

    A range whose lines have another content than its record says is left out.
    """
    names = [*dict.fromkeys(commits)]
    ranges: list[TracedRange] = []
    if repository.try_run("rev-parse", "--quiet", "--verify", TRACE_REF) is not None:
        for commit in names:
            data = repository.try_run("notes", f"--ref={TRACE_REF}", "show", commit)
            for line in (data or b"").splitlines():
                ranges += parse_record(line, commit)
    for line in _read_lines(repository.top / TRACE_FILE):
        ranges += parse_record(line)
    return [item for item in ranges if item.commit in names and _has_content(repository, item)]


def _read_lines(path: Path) -> list[bytes]:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return []
        return path.read_bytes().splitlines()
    except OSError:
        return []


def parse_record(data: bytes, commit: str = "") -> list[TracedRange]:
    """Return the ranges of a record. An invalid record has none.

    `commit`: the commit of the note, which is that of the record after a rebase as well.
    """
    try:
        record = msgspec.json.decode(data, type=_Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    revision = commit or (record.vcs.revision if record.vcs is not None else "")
    return [
        TracedRange(
            revision,
            file.path,
            item.start_line,
            item.end_line,
            contributor.type,
            contributor.model_id,
            conversation.url,
            record.tool.name if record.tool is not None else "",
            item.content_hash,
        )
        for file in record.files
        for conversation in file.conversations
        for item in conversation.ranges
        if (contributor := item.contributor or conversation.contributor) is not None
    ]


def find_range(ranges: Sequence[TracedRange], line: BlamedLine) -> TracedRange | None:
    """Return the range of a line, or None."""
    return next((item for item in ranges if item.covers(line)), None)


def _has_content(repository: GitRepository, item: TracedRange) -> bool:
    """Whether the lines have the hash of a range. Hashes of unknown kinds are not checked."""
    if not item.content_hash.startswith("sha256:"):
        return True
    name = f"{item.commit}:{item.path}"
    data = repository.read_blobs([name]).get(name)
    if data is None:
        return False
    lines = [line.removesuffix("\r") for line in decode_content(data).split("\n")]
    return hash_lines(lines[item.first - 1 : item.last]) == item.content_hash
