"""Options: what may be chosen of a built-in hook, as plain JSON values.

They stand in the spec of its birth, so that a hook made again from its log is the same hook, and a
file or a configuration can give them. What is as by default is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from harken.core import canonical
from harken.errors import ConfigError


class HookOptions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options of one kind of hooks; this one has none. Derive from it, all with defaults."""


Options = TypeVar("Options", bound=HookOptions)


def options_from(
    kind: str, type_: type[Options], given: Mapping[str, Any] | HookOptions
) -> Options:
    """Return options as they were given, by a person or by a log. Raises ConfigError.

    >>> options_from("plain", HookOptions, {"every": 3})
    Traceback (most recent call last):
    harken.errors.ConfigError: options of hook plain: there is no 'every'; there is: none
    """
    if isinstance(given, type_):
        return given
    values = options_dict(given) if isinstance(given, HookOptions) else given
    if not isinstance(values, Mapping):
        raise ConfigError(f"options of hook {kind}: {values!r} is no table of options")
    known = type_.__struct_fields__
    for name in values:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ConfigError(f"options of hook {kind}: there is no {name!r}; there is: {there}")
    try:
        return msgspec.convert(dict(values), type_)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"options of hook {kind}: {error}") from None


def options_dict(options: HookOptions) -> dict[str, Any]:
    """Return options as plain JSON values, without what is as by default."""
    plain: dict[str, Any] = canonical.from_json(canonical.to_json_line(options))
    return plain
