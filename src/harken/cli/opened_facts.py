"""The facts of the home, brought up to date before anything is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harken.cli.home import Home
from harken.cli.opened_store import open_store
from harken.cli.progress import progress
from harken.cli.settings import load_settings

if TYPE_CHECKING:
    from harken.index.facts import Facts
    from harken.store.base import Store


@contextmanager
def facts_of(home: Home) -> Iterator[Facts]:
    """Open the facts, and read what is new in the store, the catalogue and the logs.

    Raises ConfigError, StoreError.
    """
    with facts_and_store(home) as (facts, _):
        yield facts


@contextmanager
def facts_and_store(home: Home) -> Iterator[tuple[Facts, Store | None]]:
    """As `facts_of`, with the store that they were read from; None: there is none yet."""
    from harken.index.database import begun_anew

    with begun_anew(home.facts_file, home.index_file), _opened(home) as opened:
        yield opened


@contextmanager
def _opened(home: Home) -> Iterator[tuple[Facts, Store | None]]:
    from harken.index.catalogue import Catalogue
    from harken.index.facts import Facts

    home.make()
    settings = load_settings(home)
    has_store = settings.store is not None or home.store_file.exists()
    facts, store, catalogue = Facts(home.facts_file, prices=settings.prices), None, None
    try:
        if has_store:
            store = open_store(home, settings.store, settings.backing)
        if home.index_file.exists():
            catalogue = Catalogue(home.index_file)
        with progress("Reading what is new") as tell:
            facts.update(store, catalogue, home.logs(), tell)
        yield facts, store
    finally:
        for one in (facts, store, catalogue):
            if one is not None:
                one.close()
