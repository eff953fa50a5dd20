"""Searching: the logged messages that have certain words, by the facts of a folder."""

from __future__ import annotations

from collections.abc import Iterator

from harken.core import canonical
from harken.core.clock import format_rfc3339
from harken.core.commits import Hash
from harken.core.messages import MessageContent
from harken.index.search import SearchHit, SearchQuery, search
from harken.index.session_index import SessionIndex
from harken.index.stored_text import logged_entry
from harken.interactions.records import LoggedMessage
from harken.interactions.unit import MessageUnit, units_in, units_of
from harken.store.base import Store


def found_in(
    facts: SessionIndex, store: Store | None, query: str, limit: int | None, *, tokens: bool
) -> Iterator[LoggedMessage]:
    """Yield each message once in which it stands, the last said first.

    Raises ConfigError for a query without a word, StoreError.
    """
    told: set[str] = set()
    for hit in search(facts, store, SearchQuery(words=query, limit=None)).hits:
        for unit in _units_of(facts, store, hit):
            if unit.id not in told:
                told.add(unit.id)
                yield unit.logged(_time(hit), None, tokens=tokens)
                if len(told) == limit:
                    return


def _units_of(facts: SessionIndex, store: Store | None, hit: SearchHit) -> list[MessageUnit]:
    """Return what of a message the words stand in; of one that is one, itself."""
    entry = logged_entry(facts.database, hit.place.session_id, hit.place.position)
    try:
        units = _stored(store, hit.place.message) if entry is None else units_of(entry)
    except (ValueError, LookupError, TypeError):
        return []
    marked = {text.casefold() for text, is_word in hit.excerpt.pieces if is_word}
    having = [unit for unit in units if any(word in _text(unit) for word in marked)]
    return having if having and len(units) > 1 else list(units)


def _stored(store: Store | None, name: Hash) -> tuple[MessageUnit, ...]:
    if store is None:
        return ()
    shape = canonical.from_json(store.objects([name])[name])
    names = [Hash(part) for part in shape["parts"]]
    parts = store.objects(names)
    return units_in(
        MessageContent(shape["role"], [canonical.from_json(parts[part]) for part in names])
    )


def _text(unit: MessageUnit) -> str:
    return "\n".join([unit.content, unit.tool_name or "", unit.thinking or ""]).casefold()


def _time(hit: SearchHit) -> str:
    return "" if hit.time_us is None else format_rfc3339(hit.time_us)
