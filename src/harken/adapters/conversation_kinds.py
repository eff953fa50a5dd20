"""`ConversationKind`: the sessions of an agent framework that are branches of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from blake3 import blake3

from harken.core.commits import Commit
from harken.core.messages import Message
from harken.formats.frameworks import (
    adk_events,
    claude_entries,
    openai_items,
    pydantic_messages,
    records,
)
from harken.store.base import Store, StoredCommit
from harken.store.branches import MAX_BRANCH_CHARS

HASH_PREFIX = "%-"
"""The beginning of the names of branches of long ids, after the runtime."""


class ConversationKind(msgspec.Struct, frozen=True):
    """The sessions of one framework."""

    runtime: str
    """The runtime in the names of sessions and branches."""
    format: str
    """The format of commits: lines of JSON, which are joined by concatenation."""
    outline: Callable[[Sequence[Any]], list[Message]]
    """Returns the messages of items with their texts and calls, one for each item."""

    def name_session(self, id_: str) -> str:
        """Return the name of a session in Harken: `openai-agents:support-7`."""
        return f"{self.runtime}:{id_}"

    def name_branch(self, id_: str, prefix: str = "", *, part: str = "") -> str:
        """Return the branch of a session, or of a part of it.

        Different ids have different branches. prefix: in place of the runtime. part: another agent,
        or one of several runs.
        """
        start = f"{prefix or self.runtime}/"
        quoted = _quote(id_)
        if part:
            quoted = f"{quoted}/{_quote(part)}"
        if not 0 < len(quoted) <= MAX_BRANCH_CHARS - len(start) or quoted.startswith("/"):
            # In a quoted id, two hex digits follow each "%", so no quoted id has this form.
            text = f"{id_}\0{part}" if part else id_
            quoted = HASH_PREFIX + blake3(text.encode("utf-8", "surrogatepass")).hexdigest()
        return start + quoted

    def list_heads(self, store: Store, id_prefix: str = "") -> dict[str, StoredCommit]:
        """Return the last commits of branches by name: those of ids with a prefix.

        The prefix may end within an id. Raises StoreError.
        """
        heads = store.branches(f"{self.runtime}/{_quote(id_prefix)}")
        if id_prefix:
            heads |= store.branches(f"{self.runtime}/{HASH_PREFIX}")
        commits = store.commits(heads.values())
        return {
            branch: commits[head]
            for branch, head in heads.items()
            if head in commits and commits[head].commit.thread_id.startswith(id_prefix)
        }

    def find_agent(self, commit: Commit) -> str:
        """Return the name of the other agent that a commit belongs to, or an empty text."""
        return "" if commit.template == self.runtime else commit.template


def join_id(*parts: str) -> str:
    """Return the id of a session that several texts name. Different texts have different ids.

    >>> join_id("app", "a/b", "50%")
    'app/a%2Fb/50%25'
    """
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def split_id(id_: str) -> list[str]:
    """Return the texts of an id: the inverse of `join_id`."""
    return [part.replace("%2F", "/").replace("%25", "%") for part in id_.split("/")]


def _quote(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


OPENAI_AGENTS = ConversationKind("openai-agents", openai_items.NAME, openai_items.outline_items)
PYDANTIC_AI = ConversationKind(
    "pydantic-ai", pydantic_messages.NAME, pydantic_messages.outline_messages
)
CLAUDE_AGENT_SDK = ConversationKind(
    "claude-agent-sdk", claude_entries.NAME, claude_entries.outline_entries
)
GOOGLE_ADK = ConversationKind("google-adk", adk_events.NAME, adk_events.outline_events)
KINDS: Sequence[ConversationKind] = (OPENAI_AGENTS, PYDANTIC_AI, CLAUDE_AGENT_SDK, GOOGLE_ADK)
"""The kinds whose sessions are listed."""


def make_record_kind(runtime: str) -> ConversationKind:
    """Return a kind of records without messages, which is no session of its own."""
    return ConversationKind(runtime, records.NAME, lambda _: [])
