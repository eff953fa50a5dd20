"""`CommitGraph`: the order and the lanes of commits, and a range of its rows.

The order is that of `harken ctx log --graph`: the commits of a branch are together, and branches
are in the order of their newest commits. Only links of commits are needed for it, not the commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from harken.context.graph import order_by_branch
from harken.context.materialize import is_spawn
from harken.core.commits import CommitId
from harken.core.record import Record
from harken.index.ingest.commits import parse_author
from harken.store.base import CommitLink, StoredCommit
from harken.views.history.graph_layout import GraphLayout


class PassingLine(Record, frozen=True, kw_only=True):
    """A line of the graph that passes the row of another commit."""

    lane: int
    source: CommitId
    """The commit from which it comes."""
    agent: str | None
    """The `agent` of that commit."""


class HistoryRow(Record, frozen=True, kw_only=True):
    """A commit with its place in the graph."""

    id: CommitId
    parent: CommitId | None
    type: str
    is_spawn: bool
    """Whether a subagent begins with it."""
    created_at: str
    principal: str
    agent: str | None
    """The id that its agent has in its session. None if it is not known."""
    agent_name: str
    """The name of the subagent, or the principal of a main agent."""
    template: str
    machine: str
    runtime: str
    session_id: str
    checkpoint: str
    ticket_id: str
    thread_id: str
    message_count: int
    token_count: int
    summary: str
    is_summary_derived: bool
    labels: Sequence[str]
    branches: Sequence[str]
    lane: int
    is_tip: bool
    """Whether no line leads to it from above."""
    parent_lane: int | None
    """The lane of its parent. None if that is not shown, or it has none."""
    passing: list[PassingLine]
    hidden_lanes: int
    """The number of lines that pass on the right of the shown lanes."""


class CommitGraph:
    """The commits of a history, newest first."""

    def __init__(
        self, links: Iterable[CommitLink], agents: Mapping[CommitId, str] | None = None
    ) -> None:
        """Lay out commits. `links` may have any order; those last written come first at a time.

        `agents`: the ids of the agents of commits in the session that is shown.
        """
        by_time = sorted(links, key=lambda link: -link.time_us)  # The sort is stable.
        number_by_id = {link.id: number for number, link in enumerate(by_time)}
        parents = [_find_parent(link, number_by_id) for link in by_time]
        self.links = [by_time[number] for number in order_by_branch(parents)]
        self._agents = agents or {}

    @cached_property
    def row_by_id(self) -> dict[CommitId, int]:
        """The row of each commit."""
        return {link.id: row for row, link in enumerate(self.links)}

    @cached_property
    def _layout(self) -> GraphLayout:
        rows = self.row_by_id
        return GraphLayout([_find_parent(link, rows) for link in self.links])

    def __len__(self) -> int:
        return len(self.links)

    def select_history(self, agents: Mapping[CommitId, str]) -> CommitGraph:
        """Return the graph of the commits of a session, and their ancestors.

        `agents`: the commits that the session names, and the ids of their agents. The commits
        between them are of the same agents.
        """
        selected: set[int] = set()
        for tip in agents:
            row = self.row_by_id.get(tip)
            while row is not None and row not in selected:
                selected.add(row)
                row = _find_parent(self.links[row], self.row_by_id)
        links = [self.links[row] for row in sorted(selected)]
        all_agents = dict(agents)
        for link in links:
            parent_row = _find_parent(link, self.row_by_id)
            if parent_row is not None and self.links[parent_row].principal == link.principal:
                agent = all_agents.get(link.id)
                if agent is not None:
                    all_agents.setdefault(self.links[parent_row].id, agent)
        return CommitGraph(links, all_agents)

    def build_rows(
        self,
        start: int,
        commits: Sequence[StoredCommit],
        branches: Mapping[CommitId, Sequence[str]],
    ) -> list[HistoryRow]:
        """Return the rows of the commits from a position on. `branches`: the names of heads."""
        passing = self._layout.iter_passing(start, start + len(commits))
        rows: list[HistoryRow] = []
        for row, (stored, lanes) in enumerate(zip(commits, passing, strict=True), start):
            lines = [
                PassingLine(lane=edge.lane, source=child.id, agent=self._agents.get(child.id))
                for edge in lanes.edges
                for child in [self.links[edge.child]]
            ]
            rows.append(
                build_history_row(
                    stored,
                    agent=self._agents.get(stored.id),
                    branches=branches.get(stored.id, ()),
                    lane=self._layout.lanes[row],
                    is_tip=self._layout.is_tip(row),
                    parent_lane=self._find_parent_lane(row),
                    passing=lines,
                    hidden_lanes=lanes.hidden,
                )
            )
        return rows

    def _find_parent_lane(self, row: int) -> int | None:
        parent_row = _find_parent(self.links[row], self.row_by_id)
        return None if parent_row is None else self._layout.lanes[parent_row]


def _find_parent(link: CommitLink, numbers: Mapping[CommitId, int]) -> int | None:
    return None if link.parent is None else numbers.get(link.parent)


def build_history_row(
    stored: StoredCommit, *, agent: str | None = None, **place: object
) -> HistoryRow:
    """Return the row of a commit. `place`: the members of its place in the graph, and branches."""
    commit, notes = stored.commit, stored.notes
    author = parse_author(commit.principal, commit.session_id)
    return HistoryRow(
        id=stored.id,
        parent=commit.parent,
        type=commit.type,
        is_spawn=is_spawn(stored),
        created_at=commit.created_at,
        principal=commit.principal,
        agent=agent,
        agent_name=author.agent or commit.principal or author.session,
        template=commit.template,
        machine=commit.machine,
        runtime=author.runtime,
        session_id=commit.session_id,
        checkpoint=commit.checkpoint,
        ticket_id=commit.ticket_id,
        thread_id=commit.thread_id,
        message_count=commit.message_count,
        token_count=commit.token_count,
        summary=notes.summary,
        is_summary_derived=notes.derived,
        labels=notes.labels,
        **place,  # type: ignore[arg-type]
    )
