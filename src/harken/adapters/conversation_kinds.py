"""`ConversationKind`: the sessions of an agent framework that are branches of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from blake3 import blake3

from harken.core.messages import Message
from harken.formats.frameworks import openai_items
from harken.store.branches import MAX_BRANCH_CHARS


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

    def name_branch(self, id_: str, prefix: str = "") -> str:
        """Return the branch of a session. Different ids have different branches.

        prefix: in place of the runtime.
        """
        start = f"{prefix or self.runtime}/"
        quoted = quote(id_, safe="", errors="surrogatepass")
        if not 0 < len(quoted) <= MAX_BRANCH_CHARS - len(start):
            # In a quoted id, two hex digits follow each "%", so no quoted id has this form.
            quoted = f"%-{blake3(id_.encode('utf-8', 'surrogatepass')).hexdigest()}"
        return start + quoted


OPENAI_AGENTS = ConversationKind("openai-agents", openai_items.NAME, openai_items.outline_items)
KINDS: Sequence[ConversationKind] = (OPENAI_AGENTS,)
