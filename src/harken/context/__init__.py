"""Operations on commits (checkpoint, materialize, compact, compare), as used by every caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.context.checkpoint import CommitDraft, CommitIdentity, CommitOrigin
    from harken.context.compaction import compact, snapshot
    from harken.context.history import CommitDiff, commit_history, diff
    from harken.context.materialize import MaterializedContext
    from harken.context.render import RenderedConversation
    from harken.context.socket_client import current_context
    from harken.context.socket_server import ContextSocketServer
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "commit_history": "harken.context.history",
            "compact": "harken.context.compaction",
            "current_context": "harken.context.socket_client",
            "diff": "harken.context.history",
            "snapshot": "harken.context.compaction",
            "CommitDiff": "harken.context.history",
            "CommitDraft": "harken.context.checkpoint",
            "CommitOrigin": "harken.context.checkpoint",
            "ContextSocketServer": "harken.context.socket_server",
            "CommitIdentity": "harken.context.checkpoint",
            "MaterializedContext": "harken.context.materialize",
            "RenderedConversation": "harken.context.render",
        },
    )

__all__ = [
    "CommitDiff",
    "CommitDraft",
    "CommitIdentity",
    "CommitOrigin",
    "ContextSocketServer",
    "MaterializedContext",
    "RenderedConversation",
    "commit_history",
    "compact",
    "current_context",
    "diff",
    "snapshot",
]
