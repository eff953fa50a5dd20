"""The content-addressed store of the objects, commits and labels of all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.store.base import (
        GcResult,
        RetentionPolicy,
        Store,
        StoredCommit,
        StoreStats,
        Tombstone,
        WriteBatch,
    )
    from harken.store.copying.commits import copy_commits
    from harken.store.memory import MemoryStore
    from harken.store.remote.store import RemoteStore
    from harken.store.sqlite.check import StoreFinding
    from harken.store.tiered.store import TieredStore
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "copy_commits": "harken.store.copying.commits",
            "GcResult": "harken.store.base",
            "MemoryStore": "harken.store.memory",
            "RemoteStore": "harken.store.remote.store",
            "RetentionPolicy": "harken.store.base",
            "Store": "harken.store.base",
            "StoreFinding": "harken.store.sqlite.check",
            "StoreStats": "harken.store.base",
            "StoredCommit": "harken.store.base",
            "TieredStore": "harken.store.tiered.store",
            "Tombstone": "harken.store.base",
            "WriteBatch": "harken.store.base",
        },
    )

__all__ = [
    "GcResult",
    "MemoryStore",
    "RemoteStore",
    "RetentionPolicy",
    "Store",
    "StoreFinding",
    "StoreStats",
    "StoredCommit",
    "TieredStore",
    "Tombstone",
    "WriteBatch",
    "copy_commits",
]
