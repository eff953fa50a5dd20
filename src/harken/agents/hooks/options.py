"""Hook options: plain JSON values in the spec of a hook's birth.

A hook created again from its log is therefore the same hook, and a file or a configuration can set
them. Default values are omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from harken.core import canonical
from harken.core.arguments import format_existing
from harken.errors import ConfigError


class HookOptions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The base class of hook options, with none. Give all fields of a subclass defaults."""


Options = TypeVar("Options", bound=HookOptions)


def options_from(
    kind: str, type_: type[Options], given: Mapping[str, Any] | HookOptions
) -> Options:
    """Validate options from a user or a log. Raises ConfigError."""
    if isinstance(given, type_):
        return given
    values = options_dict(given) if isinstance(given, HookOptions) else given
    if not isinstance(values, Mapping):
        raise ConfigError(f"options of hook {kind}: {values!r} is not a table of options")
    names = type_.__struct_fields__
    for name in values:
        if name not in names:
            existing = format_existing(names, "options")
            raise ConfigError(f"options of hook {kind}: option {name!r} not found{existing}")
    try:
        return msgspec.convert(dict(values), type_)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"options of hook {kind}: {error}") from None


def options_dict(options: HookOptions) -> dict[str, Any]:
    """Return options as plain JSON values, without default values."""
    values: dict[str, Any] = canonical.from_json(canonical.to_json_line(options))
    return values
