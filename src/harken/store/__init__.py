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
        StoreFinding,
        StoreStats,
        Tombstone,
        WriteBatch,
    )
    from harken.store.copying.commits import copy_commits
    from harken.store.memory import MemoryStore
    from harken.store.postgresql.store import PostgresStore
    from harken.store.registry import StoreOptions, open_store
    from harken.store.remote.store import RemoteStore
    from harken.store.tiered.store import TieredStore
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "copy_commits": "harken.store.copying.commits",
            "GcResult": "harken.store.base",
            "MemoryStore": "harken.store.memory",
            "PostgresStore": "harken.store.postgresql.store",
            "RemoteStore": "harken.store.remote.store",
            "RetentionPolicy": "harken.store.base",
            "Store": "harken.store.base",
            "StoreOptions": "harken.store.registry",
            "StoreFinding": "harken.store.base",
            "StoreStats": "harken.store.base",
            "StoredCommit": "harken.store.base",
            "TieredStore": "harken.store.tiered.store",
            "Tombstone": "harken.store.base",
            "WriteBatch": "harken.store.base",
            "open_store": "harken.store.registry",
        },
    )

__all__ = [
    "GcResult",
    "MemoryStore",
    "PostgresStore",
    "RemoteStore",
    "RetentionPolicy",
    "Store",
    "StoreFinding",
    "StoreOptions",
    "StoreStats",
    "StoredCommit",
    "TieredStore",
    "Tombstone",
    "WriteBatch",
    "copy_commits",
    "open_store",
]
