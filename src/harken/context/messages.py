"""Messages as a store keeps them, put together again: a few round trips, however many they are."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain

from harken.core import codec
from harken.core.commits import Entry, Hash, message_of
from harken.core.messages import Message
from harken.errors import ObjectDamaged, ObjectMissing
from harken.store.base import Store


def messages_of(store: Store, entries: Sequence[Entry]) -> list[Message]:
    """Return the messages that entries stand for, each read once however often it occurs.

    Raises ObjectMissing, ObjectDamaged.
    """
    names = dict.fromkeys(entry.message for entry in entries)
    objects = store.objects(names)
    _check_there(names, objects)
    parts = dict.fromkeys(chain.from_iterable(_parts(name, objects) for name in names))
    objects |= store.objects(parts)
    _check_there(parts, objects)
    return [_whole(entry, objects) for entry in entries]


def _parts(name: Hash, objects: Mapping[Hash, bytes]) -> list[Hash]:
    try:
        parts: list[Hash] = list(codec.decode(objects[name])["parts"])
    except (LookupError, TypeError, ValueError) as error:
        reason = f"it is no message ({error!r})"
        raise ObjectDamaged("the store", name, reason=reason) from None
    return parts


def _whole(entry: Entry, objects: Mapping[Hash, bytes]) -> Message:
    """Put one message together; what another machine wrote may not fit together."""
    try:
        return message_of(entry, objects)
    except (LookupError, TypeError, ValueError, StopIteration) as error:
        reason = f"its occurrence does not fit ({error!r})"
        raise ObjectDamaged("the store", entry.message, reason=reason) from None


def _check_there(names: Iterable[str], found: Container[str]) -> None:
    for name in names:
        if name not in found:
            raise ObjectMissing("the store", name)
