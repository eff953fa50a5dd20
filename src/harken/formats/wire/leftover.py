"""The leftover of a piece: content that no field of its messages carries.

A protocol parses a value to messages and builds the usual value of messages. Whatever the built
value lacks is content, too, except data of one occurrence (ids, signatures, cache marks), which the
protocol names. The leftover stands in the `extra` of the first part, so it is hashed: two values
with other content have messages with other hashes, whatever the parser knows of them.

    {"message": {name: value}}   members of the value, null for one that the value lacks
    {"form": form}               any other difference, relative to the content of the built value

Source: docs/formats/wire.md, "Leftovers".
"""

from __future__ import annotations

from typing import Any

from harken.core.event_types.message_parser import FORM_KEY, MESSAGE_KEY
from harken.formats.wire.json_patch import build_form


def build_leftover(built: Any, content: Any) -> dict[str, Any]:
    """Return the leftover of a value, given its messages as a built value. Empty if there is none.

    >>> build_leftover({"role": "user"}, {"role": "user", "name": "Jill"})
    {'message': {'name': 'Jill'}}
    """
    form = build_form(built, content)
    if form is None:
        return {}
    changes = form.get("change") or [["whole"]]
    members: dict[str, Any] = {}
    for change in changes:
        match change:
            case ["set", [str(name)], value] if value is not None:
                members[name] = value
            case ["drop", [str(name)]]:
                members[name] = None
            case _:
                return {FORM_KEY: form}
    return {MESSAGE_KEY: members}
