"""`Explanation`: the agent, the request, the reason, the model and the cost of an edit.

The session index knows the kinds of messages, their responses and agents; the store has the texts.
The request is the last prompt of a user before the edit, in the history of its commit. For a
subagent that is a prompt to the agent above it, and the task is the message that the subagent got.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple

import apsw
import msgspec

from harken.attribution.records.edit_index import EditRow
from harken.attribution.records.recorded_edits import RecordedEdit
from harken.context.commit_content import read_entries
from harken.context.materialize import is_spawn
from harken.context.position import number_commits
from harken.core.commits import CommitId
from harken.core.messages import Message, ThinkingPart, message_hash, parts_of, text_of
from harken.errors import HarkenError, StoreError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.user_text import extract_typed_text
from harken.index import database
from harken.store.base import Store, StoredCommit

_FIRST_BATCH, _MAX_BATCH = 16, 1024
_MAX_REASON_COMMITS = 64
"""Commits before an edit in which a reason is searched."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of an edit. Texts are untrusted; an empty one is unknown."""

    edit: RecordedEdit
    session: str
    runtime: str
    title: str
    agent: str
    """Empty for the main agent of a session."""
    template: str
    model: str
    cost_usd: float | None
    """The cost of the response with the call, or None if it is unknown."""
    tool: str
    request: str
    request_time: str
    task: str
    """The message to the subagent that made the edit."""
    reason: str
    is_thinking: bool
    """Whether the reason is a thought of the model, not a text."""

    @property
    def ctx(self) -> CommitId:
        """The commit that contains the call."""
        return self.edit.row.commit


class EditWriter(NamedTuple):
    """The agent that made an edit. An unknown value and the name of a main agent are empty."""

    runtime: str
    model: str
    agent: str


class EditSession(NamedTuple):
    """The session in which an edit was made, by its name in the index. A title may be unknown."""

    name: str
    runtime: str
    title: str


class ConversationMessage(msgspec.Struct, frozen=True):
    """A message of the conversation around an edit."""

    ctx: CommitId
    entry: ConversationEntry
    is_call: bool
    """Whether it has the call of the edit."""
    is_request: bool


class Explainer:
    """Explains edits from the session index and the store."""

    def __init__(self, facts: apsw.Connection, store: Store) -> None:
        self._facts, self._store = facts, store
        self._writers: dict[tuple[CommitId, int], EditWriter] = {}

    def explain(self, edit: RecordedEdit) -> Explanation:
        """Return the origin of an edit. Raises StoreError."""
        history = _History(self._facts, self._store, edit)
        message = history.message
        call = (message.tool_calls or [])[edit.row.call]
        session, agent = self.find_session(edit.row), self._find_agent(edit.row)
        reason, is_thinking = history.find_reason()
        request = history.find_request()
        model, cost_usd = self._find_response(edit, history)
        return Explanation(
            edit=edit,
            session=session.name,
            runtime=session.runtime,
            title=session.title,
            agent=agent.get("agent") or "",
            template=agent.get("template") or "",
            model=model,
            cost_usd=cost_usd,
            tool=call.function.name,
            request="" if request is None else _prompt_text(request.message),
            request_time="" if request is None else request.time or "",
            task=history.find_task(),
            reason=reason,
            is_thinking=is_thinking,
        )

    def find_project(self, edit: EditRow) -> str:
        """Return the folder in which the session of an edit worked; empty if it is not known."""
        row = self._facts.execute(_PROJECT_SQL, (bytes.fromhex(edit.commit[4:]),)).fetchone()
        return "" if row is None else str(row[0])

    def conversation(self, edit: RecordedEdit, after: int = 1) -> list[ConversationMessage]:
        """Return the messages from the request to the edit, and `after` messages after it."""
        return _History(self._facts, self._store, edit).messages_around(after)

    def find_writer(self, edit: RecordedEdit) -> EditWriter:
        """Return the agent that made an edit."""
        place = (edit.row.commit, edit.row.position)
        if place not in self._writers:
            try:
                model, _ = self._find_response(edit, _History(self._facts, self._store, edit))
            except (StoreError, LookupError):
                model = ""
            agent = self._find_agent(edit.row)
            runtime = agent.get("runtime") or edit.row.session.partition(":")[0]
            self._writers[place] = EditWriter(runtime, model, agent.get("agent") or "")
        return self._writers[place]

    def find_session(self, edit: EditRow) -> EditSession:
        """Return the session in which an edit was made."""
        agent = self._find_agent(edit)
        name = agent.get("session") or edit.session
        runtime = agent.get("runtime") or edit.session.partition(":")[0]
        return EditSession(name, runtime, agent.get("title") or "")

    def find_message_number(self, edit: RecordedEdit) -> int:
        """Return the number of the result of an edit in its conversation, else that of its call.

        A conversation that ends with a result can be continued.
        """
        history = _History(self._facts, self._store, edit)
        first = number_commits(self._store, edit.row.commit)[edit.row.commit]
        return first + edit.row.position + history.count_results()

    def _find_agent(self, edit: EditRow) -> dict[str, Any]:
        row = self._facts.execute(_AGENT_SQL, (bytes.fromhex(edit.commit[4:]),)).fetchone()
        names = ("session", "runtime", "title", "agent", "template")
        return {} if row is None else dict(zip(names, row, strict=True))

    def _find_response(self, edit: RecordedEdit, history: _History) -> tuple[str, float | None]:
        """Return the model of the response with the call, and its cost."""
        ctx = bytes.fromhex(edit.row.commit[4:])
        hash_ = bytes.fromhex(message_hash(history.message))
        row = self._facts.execute(_RESPONSE_SQL, (ctx, hash_)).fetchone()
        source = history.call_entry.source or {}
        native = source.get("model")
        model = native if isinstance(native, str) else ""
        return (model, None) if row is None else (str(row[0]) or model, row[1])


_AGENT_SQL = """
SELECT s.name, s.runtime, s.title, a.name, a.template FROM commits c
JOIN sessions s ON s.id = c.session_id JOIN agents a ON a.id = c.agent_id WHERE c.name = ?
"""
_PROJECT_SQL = """
SELECT s.project FROM commits c JOIN sessions s ON s.id = c.session_id WHERE c.name = ?
"""
_RESPONSE_SQL = """
SELECT r.model, r.cost_usd FROM commits c JOIN messages m ON m.commit_id = c.id AND m.hash = ?2
JOIN requests r ON r.session_id = m.session_id AND r.message_id = m.id WHERE c.name = ?1
"""
_PROMPTS_SQL = """
SELECT c.name, m.hash, m.time FROM commits c JOIN messages m ON m.commit_id = c.id
WHERE m.kind = 'prompt' AND c.name IN
"""


class _History:
    """The conversation that leads to an edit, read backwards as far as needed."""

    def __init__(self, facts: apsw.Connection, store: Store, edit: RecordedEdit) -> None:
        self._facts, self._store, self._row = facts, store, edit.row
        self._commit = store.commits([edit.row.commit])[edit.row.commit]
        self._entries: dict[CommitId, list[ConversationEntry]] = {}
        self.call_entry = self._read([self._commit])[self._commit.id][edit.row.position]
        self.message: Message = self.call_entry.message

    def _read(self, commits: Sequence[StoredCommit]) -> dict[CommitId, list[ConversationEntry]]:
        """Read the entries of commits, once. A commit that cannot be read has none."""
        for commit in commits:
            if commit.id not in self._entries:
                try:
                    self._entries[commit.id] = read_entries(self._store, [commit])
                except StoreError:
                    self._entries[commit.id] = []
        return self._entries

    def _iter_batches(self) -> Iterator[list[StoredCommit]]:
        """Yield the commit of the edit and its ancestors, newest first."""
        name: CommitId | None = self._commit.id
        size = _FIRST_BATCH
        while name is not None:
            try:
                commits = self._store.chain(name, size)
            except HarkenError:
                return
            yield commits
            name, size = commits[-1].commit.parent, min(size * 2, _MAX_BATCH)

    def find_request(self) -> ConversationEntry | None:
        """Return the last prompt before the edit, or None if there is none."""
        if self._request_place is None:
            return None
        commit, index = self._request_place
        return self._entries[commit.id][index]

    @cached_property
    def _request_place(self) -> tuple[StoredCommit, int] | None:
        """Return the commit and the index of the last prompt before the edit."""
        for batch in self._iter_batches():
            names = [bytes.fromhex(commit.id[4:]) for commit in batch]
            prompts: dict[bytes, set[bytes]] = {}
            for name, hash_, _ in database.iter_rows_in(self._facts, _PROMPTS_SQL, names):
                prompts.setdefault(name, set()).add(hash_)
            for commit in batch:
                hashes = prompts.get(bytes.fromhex(commit.id[4:]))
                if hashes is None:
                    continue
                entries = self._read([commit])[commit.id]
                end = self._row.position if commit.id == self._commit.id else len(entries)
                for index in range(end - 1, -1, -1):
                    message = entries[index].message
                    if message.role == "user" and bytes.fromhex(message_hash(message)) in hashes:
                        return commit, index
        return None

    def find_task(self) -> str:
        """Return the first user message of a subagent, or an empty string for a main agent."""
        if "/" not in self._commit.commit.principal:
            return ""
        for batch in self._iter_batches():
            for commit in batch:
                if is_spawn(commit):
                    entries = self._read([commit])[commit.id]
                    tasks = [e.message for e in entries if e.message.role == "user"]
                    return text_of(tasks[-1].content) if tasks else ""
        return ""

    def find_reason(self) -> tuple[str, bool]:
        """Return the text or the thought of the answer, else of the nearest earlier answer."""
        for message in self._iter_answers():
            text = text_of(message.content).strip()
            if text:
                return text, False
            thoughts = [
                part.text.strip()
                for part in parts_of(message.content)
                if isinstance(part, ThinkingPart) and part.text.strip()
            ]
            if thoughts:
                return "\n\n".join(thoughts), True
        return "", False

    def _iter_answers(self) -> Iterator[Message]:
        """Yield the answers up to the edit, newest first, back to the request."""
        place = self._request_place
        passed = 0
        for batch in self._iter_batches():
            for commit in batch:
                entries = self._read([commit])[commit.id]
                is_own = commit.id == self._commit.id
                end = self._row.position + 1 if is_own else len(entries)
                is_last = place is not None and place[0].id == commit.id
                start = place[1] if place is not None and is_last else 0
                for entry in reversed(entries[start:end]):
                    if entry.message.role == "assistant":
                        yield entry.message
                passed += 1
                if is_last or is_spawn(commit) or passed >= _MAX_REASON_COMMITS:
                    return

    def count_results(self) -> int:
        """Return the number of results that follow the call in its commit."""
        entries = self._read([self._commit])[self._commit.id][self._row.position + 1 :]
        return len([*takewhile(lambda entry: entry.message.role == "tool", entries)])

    def messages_around(self, after: int) -> list[ConversationMessage]:
        """Return the messages from the request to the edit, and `after` messages after it."""
        place = self._request_place
        commits: list[StoredCommit] = []
        for batch in self._iter_batches():
            ends = [place is not None and place[0].id == commit.id for commit in batch]
            commits += batch[: ends.index(True) + 1] if True in ends else batch
            if True in ends or len(commits) >= _MAX_REASON_COMMITS:
                break
        messages: list[ConversationMessage] = []
        for commit in reversed(commits):
            entries = self._read([commit])[commit.id]
            is_own = commit.id == self._commit.id
            start = place[1] if place is not None and place[0].id == commit.id else 0
            end = self._row.position + 1 + after if is_own else len(entries)
            for index in range(start, min(end, len(entries))):
                is_request = place is not None and place == (commit, index)
                is_call = is_own and index == self._row.position
                messages.append(ConversationMessage(commit.id, entries[index], is_call, is_request))
        return messages


def _prompt_text(message: Message) -> str:
    """Return the text that the user typed in a prompt, without texts of the client."""
    text = text_of(message.content)
    return extract_typed_text(text) or text
