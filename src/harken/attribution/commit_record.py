"""The records in a repository about commits whose edits are not recorded here.

They are the contexts of `harken git install` and Agent Trace records. Another person's agents may
have made such a commit; the record is what its author's tools say.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harken.attribution.agent_trace import (
    TRACE_FILE,
    TRACE_REF,
    TracedRange,
    find_range,
    read_ranges,
)
from harken.attribution.git.commit_context import TRAILER, read_contexts
from harken.attribution.git.hooks import NOTES_REF
from harken.attribution.git.repository import HEAD, GitRepository
from harken.attribution.line_origin import LineOrigin

_MAX_COMMITS = 100
"""The records of so many commits are read for one answer."""


class CommitRecord(msgspec.Struct, frozen=True):
    """The records about lines of one commit."""

    contexts: Sequence[str] = ()
    """The contexts in which agents made the commit."""
    trace: TracedRange | None = None

    def __bool__(self) -> bool:
        """Whether there is a record."""
        return bool(self.contexts) or self.trace is not None


def has_records(repository: GitRepository) -> bool:
    """Whether a repository may have records: notes of contexts or traces, trailers, or a file."""
    refs = (NOTES_REF, TRACE_REF)
    if any(repository.try_run("rev-parse", "--verify", "--quiet", ref) for ref in refs):
        return True
    pattern = f"--grep=^ *{TRAILER}: ctx-"
    output = repository.try_run("rev-list", "-1", "--regexp-ignore-case", pattern, HEAD)
    return bool(output) or (repository.top / TRACE_FILE).is_file()


def find_records(
    repository: GitRepository, origins: Sequence[LineOrigin]
) -> dict[int, CommitRecord]:
    """Return the records about committed lines without an edit of an agent, by line number."""
    lines = [
        origin.line
        for origin in origins
        if not origin.is_agent and not origin.line.commit.is_uncommitted
    ]
    commits = [*dict.fromkeys(line.commit.id for line in lines)][:_MAX_COMMITS]
    contexts = read_contexts(repository, commits)
    ranges = read_ranges(repository, commits)
    records = {
        line.number: CommitRecord(contexts.get(line.commit.id, ()), find_range(ranges, line))
        for line in lines
    }
    return {number: record for number, record in records.items() if record}
