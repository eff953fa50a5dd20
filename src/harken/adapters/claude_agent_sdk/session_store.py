"""`HarkenSessionStore`: the transcripts of Claude Code in a home folder or a store of Harken.

The SDK mirrors each transcript, and reads it to resume a session on another machine. Entries are
kept as they were given; one whose `uuid` exists already is a repeated one, and is left out.

The SDK logs errors of a store, and goes on: a run never fails because its mirror does.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from claude_agent_sdk import fold_session_summary

from harken.adapters.claude_agent_sdk.transcript_cache import TranscriptCache
from harken.adapters.conversation import StoredConversation
from harken.adapters.conversation_kinds import CLAUDE_AGENT_SDK, join_id, split_id
from harken.adapters.conversation_lines import decode_lines
from harken.adapters.store_user import StoreUser, complete, read_in_thread
from harken.core.clock import Clock, parse_rfc3339, system_clock
from harken.core.commits import CommitId, hash_raw
from harken.errors import StoreError
from harken.formats.frameworks.item_lines import encode_item
from harken.store.base import Store, StoredCommit, WriteBatch


class HarkenSessionStore(StoreUser):
    """A `SessionStore` of the SDK, with all of its optional methods, and forks.

    Tasks, threads and processes may share it: all their entries are kept.
    """

    def __init__(
        self,
        folder: str | Path = "~/.harken",
        *,
        store: Store | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Open the store.

        folder: a home of Harken, created if it does not exist.
        store: in place of the store of the folder, closed by its owner. Raises StoreError.
        """
        super().__init__(folder, store=store, clock=clock)
        self._transcripts = TranscriptCache(self._store, clock)

    async def append(self, key: Mapping[str, Any], entries: Sequence[Any]) -> None:
        """Append entries of a transcript. On return they survive a power failure.

        Raises TypeError, ValueError if an entry is no JSON; StoreError.
        """
        self._check_open("the session store")
        await complete(lambda: self._transcripts.append(*_split_key(key), entries))

    async def load(self, key: Mapping[str, Any]) -> list[Any] | None:
        """Return the entries of a transcript, or None if it was never written."""
        conversation = self._get(key)

        def read() -> list[Any] | None:
            return conversation.get_items() if conversation.find_head() is not None else None

        return await read_in_thread(read)

    async def list_sessions(self, project_key: str) -> list[Any]:
        """Return the ids of the sessions of a project, and when they were written last."""
        self._check_open("the session store")
        commits = await read_in_thread(lambda: self._list_transcripts(join_id(project_key, "")))
        return [
            {"session_id": _get_session(stored), "mtime": _get_mtime(stored)}
            for stored in commits
            if not CLAUDE_AGENT_SDK.find_agent(stored.commit)
        ]

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """Return the summaries of the sessions of a project, as the SDK derives them.

        Only entries that were written after the last summary are read.
        """
        self._check_open("the session store")

        def read() -> list[Any]:
            return [
                self._summarize(project_key, stored)
                for stored in self._list_transcripts(join_id(project_key, ""))
                if not CLAUDE_AGENT_SDK.find_agent(stored.commit)
            ]

        return await complete(read)

    async def delete(self, key: Mapping[str, Any]) -> None:
        """Delete a transcript, and those of its subagents if it is the main one.

        `harken store gc` then removes its entries, unless a fork has them.
        """
        self._check_open("the session store")
        id_, agent = _split_key(key)

        def delete() -> None:
            agents = [agent] if agent else ["", *self._list_agents(id_)]
            for name in agents:
                self._transcripts.get(id_, name).delete()

        await complete(delete)

    async def list_subkeys(self, key: Mapping[str, Any]) -> list[str]:
        """Return the subpaths of a session: the transcripts of its subagents."""
        self._check_open("the session store")
        return await read_in_thread(lambda: self._list_agents(_split_key(key)[0]))

    async def fork(self, key: Mapping[str, Any], session_id: str, at: str | None = None) -> None:
        """Create a session that continues a commit: by default, the last one of a transcript.

        Nothing is copied. `at` is the full name of a commit, of any session of the store. Raises
        BranchConflict if the new session exists already; NameNotFound if the commit does not exist.
        """
        conversation = self._get(key)
        id_ = join_id(key["project_key"], session_id)
        commit = None if at is None else CommitId(at)
        await complete(lambda: conversation.fork(id_, commit))

    async def find_head(self, key: Mapping[str, Any]) -> str | None:
        """Return the last commit of a transcript, with which a fork can begin, or None."""
        return await read_in_thread(self._get(key).find_head)

    def _get(self, key: Mapping[str, Any]) -> StoredConversation:
        self._check_open("the session store")
        return self._transcripts.get(*_split_key(key))

    def _list_transcripts(self, id_prefix: str) -> list[StoredCommit]:
        """Return the last commits of transcripts, the newest first, also within a millisecond."""
        heads = CLAUDE_AGENT_SDK.list_heads(self._store, id_prefix).values()
        return sorted(heads, key=lambda stored: stored.commit.created_at, reverse=True)

    def _list_agents(self, id_: str) -> list[str]:
        agents = (
            CLAUDE_AGENT_SDK.find_agent(stored.commit)
            for stored in self._list_transcripts(id_)
            if stored.commit.thread_id == id_
        )
        return sorted(filter(None, agents))

    def _summarize(self, project_key: str, stored: StoredCommit) -> dict[str, Any]:
        """Return the summary of a session, from the last one and the entries after it."""
        session = _get_session(stored)
        conversation = self._transcripts.get(join_id(project_key, session))
        key = f"summary of {conversation.branch}"
        previous = self._read_summary(key)
        head = CommitId(previous["head"]) if previous else None
        if previous is None or head != stored.id:
            summary = (
                {"session_id": session, "mtime": 0, "data": previous["data"]} if previous else None
            )
            lines = conversation.read_lines_between(head, stored.id)
            if lines is None:  # The session was deleted, and written again.
                summary, lines = None, conversation.get_lines_at(stored.id)
            session_key: Any = {"project_key": project_key, "session_id": session}
            new_summary: Any = fold_session_summary(
                summary,  # type: ignore[arg-type, unused-ignore]
                session_key,
                decode_lines(lines),
            )
            previous = {"head": stored.id, "data": new_summary["data"]}
            self._write_summary(key, previous)
        return {"session_id": session, "mtime": _get_mtime(stored), "data": previous["data"]}

    def _read_summary(self, key: str) -> dict[str, Any] | None:
        refs = self._store.find_derived([key])
        data = self._store.raws(refs.values())
        summary: dict[str, Any] | None = json.loads(data[refs[key]]) if data else None
        return summary

    def _write_summary(self, key: str, summary: Mapping[str, Any]) -> None:
        data = encode_item(summary)
        ref = hash_raw(data)
        with suppress(StoreError):  # A store that cannot be written derives it each time.
            self._store.write(WriteBatch(raw={ref: data}, derived={key: ref}))


def _split_key(key: Mapping[str, Any]) -> tuple[str, str]:
    """Return the id of the session, and the subagent or an empty text. Raises ValueError."""
    subpath = key.get("subpath")
    if subpath == "":
        raise ValueError("subpath is empty: leave it out for the main transcript")
    return join_id(key["project_key"], key["session_id"]), subpath or ""


def _get_session(stored: StoredCommit) -> str:
    return split_id(stored.commit.thread_id)[-1]


def _get_mtime(stored: StoredCommit) -> int:
    return parse_rfc3339(stored.commit.created_at) // 1000
