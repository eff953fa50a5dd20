"""The session index and the edit index of a home, updated before each query."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from harken.config.home import Home
from harken.config.store import load_store_settings, open_store
from harken.errors import ConfigError
from harken.terminal.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from harken.attribution.records.edit_index import EditIndex
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store

T = TypeVar("T")


def read_facts(home: Home, read: Callable[[SessionIndex, Store | None], T]) -> T:
    """Update the session index, and return the result of `read` for it and the store.

    The store is None if there is none yet. If the index is damaged, it is rebuilt and `read` is
    called again, so `read` must not print before it has read everything. Raises ConfigError and
    StoreError.
    """
    from harken.config.imported_sessions import repair_imports
    from harken.index.database import run_with_repair

    repairs = {
        home.facts_file: _rebuild,
        home.index_file: repair_imports,
    }
    return run_with_repair(partial(_read_index, home, read), repairs)


def read_indexed(home: Home, read: Callable[[SessionIndex, Store | None], T]) -> T:
    """Return the result of `read` for the session index as it is, which may lack new content.

    The index of another process that updates it can be read. Raises as `read_facts`.
    """
    from harken.index.database import run_with_repair

    read_index = partial(_read_index, home, read, is_updated=False)
    return run_with_repair(read_index, {home.facts_file: _rebuild})


def read_edits(
    home: Home,
    read: Callable[[EditIndex, SessionIndex, Store], T],
    *,
    needs_edits: bool = True,
) -> T:
    """Update both indexes, and return the result of `read` for them and the store.

    A damaged index is rebuilt, as in `read_facts`. Raises ConfigError if nothing is recorded yet
    although `read` needs edits, and StoreError.
    """
    from harken.attribution.records.edit_index import EditIndex
    from harken.attribution.records.edit_ingest import update_edits
    from harken.config.imported_sessions import repair_imports
    from harken.index.database import run_with_repair
    from harken.store.memory import MemoryStore

    def read_index() -> T:
        return _read_index(home, read_both)

    def read_both(facts: SessionIndex, store: Store | None) -> T:
        if store is None:
            if needs_edits:
                raise ConfigError(NOTHING_RECORDED)
            store = MemoryStore()
        with closing(EditIndex(home.edits_file, repair=_rebuild)) as edits:
            with progress("Reading new edits") as tell:
                update_edits(edits, store, tell)
            if needs_edits and edits.is_empty():
                raise ConfigError(NOTHING_RECORDED)
            return read(edits, facts, store)

    repairs = {
        home.edits_file: _rebuild,
        home.facts_file: _rebuild,
        home.index_file: repair_imports,
    }
    return run_with_repair(read_index, repairs)


NOTHING_RECORDED = (
    "no edit of an agent is recorded; `harken import` imports the sessions of Claude Code, Codex "
    "and others"
)


def _rebuild(path: Path) -> None:
    """Delete a damaged index, and print a note. It is rebuilt from the store and the logs."""
    from harken.index.database import reset_database

    reset_database(path)
    click.echo(f"harken: {path} was damaged; it is rebuilt from the store and the logs", err=True)


def _read_index(
    home: Home, read: Callable[[SessionIndex, Store | None], T], *, is_updated: bool = True
) -> T:
    from harken.config.imported_sessions import has_catalogue, open_catalogue
    from harken.index.session_index import SessionIndex

    home.create_folders()
    settings = load_store_settings(home)
    if home.checkpoints_file.exists():
        from harken.adapters.sessions import fold_threads

        fold_threads(home.checkpoints_file, home.store_file)
    has_store = settings.store is not None or home.store_file.exists()
    with ExitStack() as stack:
        facts = SessionIndex(home.facts_file, prices=settings.prices, repair=_rebuild)
        stack.enter_context(closing(facts))
        store, catalogue = None, None
        if has_store:
            store = open_store(home, settings)
            stack.callback(store.close)
        if not is_updated:
            return read(facts, store)
        if has_catalogue(home):
            catalogue = stack.enter_context(closing(open_catalogue(home)))
        with progress("Reading new content") as tell:
            facts.update(store, catalogue, home.list_logs(), tell)
        return read(facts, store)
