"""Formats: how a provider or a runtime writes conversations; one file each, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.formats.base import ConversationEntry, Format
    from harken.formats.client_messages import messages_in, messages_out
    from harken.formats.registry import FormatRegistry
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "ConversationEntry": "harken.formats.base",
            "Format": "harken.formats.base",
            "FormatRegistry": "harken.formats.registry",
            "messages_in": "harken.formats.client_messages",
            "messages_out": "harken.formats.client_messages",
        },
    )

__all__ = ["ConversationEntry", "Format", "FormatRegistry", "messages_in", "messages_out"]
