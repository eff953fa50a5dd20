"""The interaction log: the context of each model call of any program, and its export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.interactions.logger import InteractionLogger, InteractionLoggingConfig
    from harken.interactions.sdk.wrap import wrap_client
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "wrap_client": "harken.interactions.sdk.wrap",
            "InteractionLogger": "harken.interactions.logger",
            "InteractionLoggingConfig": "harken.interactions.logger",
        },
    )

__all__ = ["InteractionLogger", "InteractionLoggingConfig", "wrap_client"]
