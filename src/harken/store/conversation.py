"""Messages straight from a pack: where all that a delta needs stands in the same one.

One idea: a name is there to find a thing elsewhere. What was written together is found by its
place, so that neither names nor hashes are needed; the sum of the pack says that all is as it was
written. It gives what reading by names gives, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from harken.core import codec
from harken.core.commits import delta_from
from harken.core.messages import Message, PureMessage, Role, join
from harken.store.base import Kind
from harken.store.pack import ELSEWHERE, MARK, Pack


def messages_in(pack: Pack, at: int) -> list[Message] | None:
    """Return the messages of the delta at a place.

    None: it needs something from elsewhere, or is not as it should be: then names say what is it.
    """
    try:
        return _messages(pack, at)
    except (LookupError, TypeError, ValueError, StopIteration, AttributeError):
        return None


def _messages(pack: Pack, at: int) -> list[Message] | None:
    if pack.kind(at) is not Kind.DELTA:
        return None
    entries, led = delta_from(pack.marked(at).replace(MARK, b"")), pack.led(at)
    if not _one_each([entry.message for entry in entries], led):
        return None
    found: list[Message] = []
    for entry, place in zip(entries, led, strict=True):
        role, parts = _shape(pack, place)
        if not parts or ELSEWHERE in parts:
            return None
        values = [codec.decode(pack.marked(part)) for part in parts]
        found.append(join(PureMessage(role, values), entry.occurrence))
    return found


def _shape(pack: Pack, at: int) -> tuple[Any, Sequence[int]]:
    """Return the role of a message and the places of its parts; no parts: names must say them."""
    body, led = pack.marked(at), pack.led(at)
    role = _PLAIN.get(body)
    if role is None:
        shape: dict[str, Any] = codec.decode(body.replace(MARK, b""))
        role, led = shape["role"], led if _one_each(shape["parts"], led) else []
    kinds = [pack.kind(one) for one in (at, *led)]
    fits = kinds[0] is Kind.MESSAGE and kinds.count(Kind.PART) == len(led)
    return role, led if fits else []


def _one_each(names: Sequence[str], led: Sequence[int]) -> bool:
    """Whether each name is a mark, and there is no other mark, and none leads elsewhere."""
    return len(names) == len(led) and not any(names) and ELSEWHERE not in led


_PLAIN = {b'{"parts":["\x01"],"role":"%s"}' % role.encode(): role for role in get_args(Role)}
"""What most messages are: one part."""
