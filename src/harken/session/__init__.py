"""The log of one run: append, recover, the fold, resume; older dialects.

`Session` writes; `read_log` reads; `fold` is the one function that gives events a meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.session.v1_names import MessageString, SessionLogger
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "MessageString": "harken.session.v1_names",
            "SessionLogger": "harken.session.v1_names",
        },
    )

__all__ = ["MessageString", "SessionLogger"]
