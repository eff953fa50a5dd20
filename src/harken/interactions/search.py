"""Search logged messages by words, using the session index of a folder."""

from __future__ import annotations

from collections.abc import Iterator

from harken.core import canonical
from harken.core.clock import format_rfc3339
from harken.core.commits import Hash
from harken.core.messages import MessageContent
from harken.index.search import SearchHit, SearchQuery, search
from harken.index.session_index import SessionIndex
from harken.index.stored_text import read_logged_entry
from harken.interactions.records import LoggedMessage
from harken.interactions.unit import MessageUnit, split_content, split_message
from harken.store.base import Store


def find_messages(
    facts: SessionIndex, store: Store | None, query: str, limit: int | None, *, tokens: bool
) -> Iterator[LoggedMessage]:
    """Yield each matching message once, newest first.

    Raises ConfigError for a query without a word, StoreError.
    """
    seen_ids: set[str] = set()
    for hit in search(facts, store, SearchQuery(text=query, limit=None)).hits:
        for unit in _matching_units(facts, store, hit):
            if unit.id not in seen_ids:
                seen_ids.add(unit.id)
                yield unit.logged(_format_time(hit), None, tokens=tokens)
                if len(seen_ids) == limit:
                    return


def _matching_units(facts: SessionIndex, store: Store | None, hit: SearchHit) -> list[MessageUnit]:
    """Return the matching units of a message; its only unit if it has one."""
    location = hit.location
    entry = read_logged_entry(
        facts.database, location.session_id, location.position, location.message
    )
    try:
        units = _read_units(store, location.message) if entry is None else split_message(entry)
    except (ValueError, LookupError, TypeError):
        return []
    words = {text.casefold() for text, is_word in hit.excerpt.pieces if is_word}
    matching = [unit for unit in units if any(word in _searchable_text(unit) for word in words)]
    return matching if matching and len(units) > 1 else list(units)


def _read_units(store: Store | None, name: Hash) -> tuple[MessageUnit, ...]:
    if store is None:
        return ()
    shape = canonical.from_json(store.objects([name])[name])
    names = [Hash(part) for part in shape["parts"]]
    parts = store.objects(names)
    return split_content(
        MessageContent(shape["role"], [canonical.from_json(parts[part]) for part in names])
    )


def _searchable_text(unit: MessageUnit) -> str:
    return "\n".join([unit.content, unit.tool_name or "", unit.thinking or ""]).casefold()


def _format_time(hit: SearchHit) -> str:
    return "" if hit.time_us is None else format_rfc3339(hit.time_us)
