"""`HomeCommits`: the commits in the store of a home, for the routes of the viewer."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.config.store import has_store, open_configured_store
from harken.context.commit_content import read_commit_messages
from harken.context.history import (
    find_common_ancestor,
    get_commit,
    move_labels,
    read_commit_links,
    update_metadata,
)
from harken.core.commits import CommitId
from harken.errors import NameNotFound
from harken.index.ingest.commits import parse_author
from harken.service.viewer.commit_history import (
    CommitBrief,
    CommitDetails,
    CommitMessage,
    CommitNameRow,
    CommitNames,
    CommitPosition,
    ComparedCommits,
    GraphPage,
    SessionSelection,
)
from harken.service.viewer.home_pages.commit_agents import CommitAgentName
from harken.session.log.reader import paused_gc
from harken.store.base import Store, StoredCommit
from harken.store.branches import rename_branch
from harken.views.history.commit_comparison import CommitComparison, read_conversation
from harken.views.history.commit_graph import CommitGraph, HistoryRow, build_history_row
from harken.views.message_text import format_message, heading

_MAX_CHILDREN = 50
_ATTEMPTS = 3
_MAX_SESSIONS = 8
"""The number of sessions whose graphs are kept."""
_MIN_AGE_S, _AGE_PER_READING = 1.0, 20.0
"""A graph is laid out again after a second, or some times what reading it took."""


class HomeCommits:
    """The commits of a home. Methods are called by several threads at a time."""

    def __init__(self, home: Home, find_session: Callable[[str], str | None]) -> None:
        """Nothing is read yet.

        find_session: returns the name in the library of the session that a commit names.
        """
        self._home, self._find_session = home, find_session
        self._graphs = GraphCache()

    def read_rows(self, session: SessionSelection | None, start: int, stop: int) -> GraphPage:
        """Return a range of the graph. A home without a store has no commits."""
        if not has_store(self._home):
            return GraphPage(total=0, version="", rows=[], authors={})
        with open_configured_store(self._home) as store:
            version, graph, commits = self._read_range(store, session, start, stop)
            branches: dict[CommitId, list[str]] = {}
            for branch, head in store.branches().items():
                branches.setdefault(head, []).append(branch)
            rows = graph.build_rows(start, commits, branches)
            row_ids = {row.id for row in rows}
            sources = {line.source for row in rows for line in row.passing} - row_ids
            shown = [*commits, *store.commits([*sources]).values()]
            return GraphPage(
                total=len(graph), version=version, rows=rows, authors=self._find_authors(shown)
            )

    def _find_authors(self, commits: Iterable[StoredCommit]) -> dict[CommitId, CommitAgentName]:
        """Return the agents of commits, as the commits name them."""
        sessions: dict[str, str | None] = {"": None}
        authors: dict[CommitId, CommitAgentName] = {}
        for stored in commits:
            id_ = stored.commit.session_id
            if id_ not in sessions:
                sessions[id_] = self._find_session(id_)
            agent = parse_author(stored.commit.principal, id_).agent
            authors[stored.id] = CommitAgentName(sessions[id_], agent)
        return authors

    def _read_range(
        self, store: Store, session: SessionSelection | None, start: int, stop: int
    ) -> tuple[str, CommitGraph, list[StoredCommit]]:
        """Read a range of commits. If some were removed since, the graph is laid out again."""
        for _ in range(_ATTEMPTS):
            version, graph = self._graphs.read(store, session)
            names = [link.id for link in graph.links[start:stop]]
            commits = store.commits(names)
            if len(commits) == len(names):
                return version, graph, [commits[name] for name in names]
            self._graphs.forget()
        raise NameNotFound("commit", next(name for name in names if name not in commits), [])

    def find(self, session: SessionSelection | None, name: str) -> CommitPosition:
        """Return the commit that a name stands for. Raises also AmbiguousName, ConfigError."""
        with open_configured_store(self._home) as store:
            commit = NameResolver(self._home, store).commit(name)
            version, graph = self._graphs.read(store, session)
            if session is None and commit not in graph.row_by_id:  # It was written since.
                self._graphs.forget()
                version, graph = self._graphs.read(store, session)
            return CommitPosition(id=commit, row=graph.row_by_id.get(commit), version=version)

    def list_names(self, text: str, limit: int) -> CommitNames:
        """Return branches and labels that contain a text, sorted, branches first."""
        if not has_store(self._home):
            return CommitNames(total=0, names=[])
        with open_configured_store(self._home) as store:
            labels = store.commits_by_label().items()
            pairs = [("branch", name, head) for name, head in store.branches().items()]
            pairs += [("label", name, head) for name, heads in sorted(labels) for head in heads]
        folded_text = text.casefold()
        matches = [pair for pair in pairs if folded_text in pair[1].casefold()]
        names = [
            CommitNameRow(kind=kind, name=name, commit=commit)
            for kind, name, commit in matches[:limit]
        ]
        return CommitNames(total=len(matches), names=names)

    def describe(self, commit: CommitId) -> CommitDetails:
        """Return a commit with its messages."""
        with open_configured_store(self._home) as store:
            stored = get_commit(store, commit)
            children = store.children(commit)
            parent = stored.commit.parent
            beside = store.commits([*children[:_MAX_CHILDREN], *([parent] if parent else [])])
            briefs = {name: _build_brief(neighbor) for name, neighbor in beside.items()}
            session_id = stored.commit.session_id
            return CommitDetails(
                commit=_build_row(store, stored),
                session=self._find_session(session_id) if session_id else None,
                author=self._find_authors([stored])[commit],
                parent=None if parent is None else briefs.get(parent),
                children=[briefs[name] for name in children[:_MAX_CHILDREN] if name in briefs],
                child_count=len(children),
                messages=[
                    CommitMessage(heading=heading(message), text=format_message(message))
                    for message in read_commit_messages(store, [stored])
                ],
            )

    def read_text(self, commit: CommitId, position: int) -> str:
        """Return a message that a model reads at a commit."""
        with open_configured_store(self._home) as store:
            messages = read_conversation(store, commit)
        if position >= len(messages):
            raise NameNotFound("message", str(position), [f"0 to {len(messages) - 1}"])
        return format_message(messages[position])

    def compare(self, before: CommitId, after: CommitId) -> ComparedCommits:
        """Compare two commits, as `harken ctx diff`."""
        with open_configured_store(self._home) as store:
            pair = [get_commit(store, name) for name in (before, after)]
            rows = [_build_row(store, stored) for stored in pair]
            ancestor = find_common_ancestor(store, before, after)
            comparison = CommitComparison.read(store, before, after)
            authors = self._find_authors(pair)
            return ComparedCommits(rows[0], rows[1], authors, ancestor, comparison)

    def set_labels(
        self, commit: CommitId, labels: Sequence[str], expected: Sequence[str]
    ) -> Sequence[str]:
        """Replace the expected labels of a commit, as `harken ctx label`."""
        with open_configured_store(self._home) as store:
            notes = update_metadata(store, commit, labels=labels, instead_of_labels=expected)
            return notes.labels

    def move_label(self, label: str, source: CommitId, target: CommitId) -> None:
        """Move a label from one commit to another, as `harken ctx label --from`."""
        with open_configured_store(self._home) as store:
            move_labels(store, [label], source, target)

    def set_branch(self, name: str, to: CommitId | None, expected: CommitId | None) -> None:
        """Create, move or delete a branch, as `harken ctx branch`."""
        with open_configured_store(self._home) as store:
            store.move_branch(name, to, expected=expected)

    def rename_branch(self, name: str, new_name: str, expected: CommitId) -> None:
        """Rename a branch, as `harken ctx branch --rename`."""
        with open_configured_store(self._home) as store:
            rename_branch(store, name, new_name, expected)


class GraphCache:
    """The graph of all commits, and those of the sessions that were asked for last."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._lock = threading.Lock()
        self._newest: Sequence[CommitId] | None = None
        self._version = ""
        self._expires_at = 0.0
        self._graph = CommitGraph(())
        self._of_sessions: OrderedDict[tuple[str, int], CommitGraph] = OrderedDict()

    def read(self, store: Store, session: SessionSelection | None) -> tuple[str, CommitGraph]:
        """Return the version and the graph, after new commits were added. Raises StoreError."""
        with self._lock:
            self._update(store)
            if session is None:
                return self._version, self._graph
            key = (session.session, len(session.agents))
            graph = self._of_sessions.pop(key, None)
            if graph is None:
                graph = self._graph.select_history(session.agents)
            self._of_sessions[key] = graph
            if len(self._of_sessions) > _MAX_SESSIONS:
                self._of_sessions.popitem(last=False)
            return f"{self._version} {len(session.agents)}", graph

    def forget(self) -> None:
        """Read the store again at the next use."""
        with self._lock:
            self._newest, self._expires_at = None, 0.0

    def _update(self, store: Store) -> None:
        started_at = time.monotonic()
        if started_at < self._expires_at:
            return
        newest = store.newest_commits(1)
        if newest == self._newest:
            return
        with paused_gc():
            self._graph = CommitGraph(read_commit_links(store))
        self._of_sessions.clear()
        self._newest, self._version = newest, secrets.token_hex(8)
        read_at = time.monotonic()
        age_s = max(_MIN_AGE_S, _AGE_PER_READING * (read_at - started_at))
        self._expires_at = read_at + age_s


def _build_row(store: Store, stored: StoredCommit) -> HistoryRow:
    branches = [name for name, head in store.branches().items() if head == stored.id]
    return build_history_row(
        stored,
        branches=branches,
        lane=0,
        is_tip=True,
        parent_lane=None,
        passing=[],
        hidden_lanes=0,
    )


def _build_brief(stored: StoredCommit) -> CommitBrief:
    row = stored.commit
    return CommitBrief(
        id=stored.id, type=row.type, agent_name=row.principal, summary=stored.notes.summary
    )
