"""The formats that there are: Harken's own, those of installed packages, those of a program.

One idea: a format is imported when it is asked for. So nobody pays for formats that are not used,
and a broken package is an error for whoever names its format, and for nobody else.

A package enters a format under the entry point `harken.formats`: the name of the format, and where
the `Format` is. What is built in cannot be replaced.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from harken.core.arguments import check_arguments
from harken.errors import AmbiguousName, ConfigError, NameNotFound
from harken.formats.base import Format, Reader

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "harken.formats"
_BUILT_IN = {
    "atif-v1": "harken.formats.runtimes.atif",
    "claude-code-v1": "harken.formats.runtimes.claude_code.reader",
    "codex-v1": "harken.formats.runtimes.codex.reader",
    "events-v1": "harken.formats.events_v1",
    "gemini-cli-v1": "harken.formats.runtimes.gemini_cli.reader",
    "messages-v1": "harken.formats.messages_v1",
    "narrative-v1": "harken.formats.narrative",
    "opencode-v1": "harken.formats.runtimes.opencode.reader",
    "pi-v3": "harken.formats.runtimes.pi.reader",
}
_REVISIONS: dict[str, int] = {}
"""Of those that are not in the first: so what is found again needs no import of its format."""


def _installed() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and seldom needed

    return entry_points(group=GROUP)


@check_arguments
class FormatRegistry:
    """Formats by name."""

    def __init__(
        self, *more: Format, installed: Callable[[], Iterable[EntryPoint]] = _installed
    ) -> None:
        """Have the formats of Harken, those of installed packages, and `more`."""
        self._installed = installed
        self._points: Mapping[str, EntryPoint] | None = None
        self._loaded: dict[str, Format] = {}
        for format_ in more:
            self.register(format_)

    def register(self, format: Format) -> Format:
        """Add a format; return it. Raises ValueError where another one has its name."""
        if format.name in _BUILT_IN or self._loaded.get(format.name, format) is not format:
            raise ValueError(f"there is a format {format.name} already; a change has a new name")
        self._loaded[format.name] = format
        return format

    def get(self, name: str) -> Format | None:
        """Return the format with this name; None: nobody here knows it.

        Raises ConfigError where the package that has it cannot be used.
        """
        if name not in self._loaded:
            if name in _BUILT_IN:
                self._loaded[name] = importlib.import_module(_BUILT_IN[name]).FORMAT
            elif name in self._entered():
                self._loaded[name] = _loaded(self._entered()[name])
        return self._loaded.get(name)

    def revision(self, name: str) -> int:
        """Return which writer a format has; no format of Harken is imported for that.

        1: the first, or nobody here knows it. Raises ConfigError as `get`.
        """
        if name in _BUILT_IN:
            return _REVISIONS.get(name, 1)
        found = self.get(name)
        return 1 if found is None else found.revision

    def find(self, given: str) -> Format:
        """Return the format with this name, or the only one whose name begins so.

        Raises NameNotFound and AmbiguousName, which list what there is, ConfigError as `get`.
        """
        names = [name for name in self.names() if given and name.startswith(given)]
        found = self.get(given if given in names else names[0] if len(names) == 1 else "")
        if found is not None:
            return found
        if names:
            raise AmbiguousName("format", given, names)
        raise NameNotFound("format", given, self.names())

    def reader(self, name: str) -> Reader | None:
        """Return what reads bytes of this format: its own, or a later version that maps them."""
        found = self.get(name)
        if found is not None:
            return found.reads
        for later in filter(None, map(self.get, self.names())):
            if name in later.older and later.reads is not None:
                upgrade, reads = later.older[name], later.reads
                return lambda data: reads(upgrade(data))
        return None

    def names(self) -> list[str]:
        """Return the names of all formats, sorted; nothing is imported."""
        return sorted({*_BUILT_IN, *self._entered(), *self._loaded})

    def _entered(self) -> Mapping[str, EntryPoint]:
        if self._points is None:
            self._points = {point.name: point for point in self._installed()}
        return self._points


def _loaded(point: EntryPoint) -> Format:
    try:
        found = point.load()
    except Exception as error:  # the border to a package of others
        raise _unusable(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, Format):
        raise _unusable(point, f"it is no Format but {type(found).__name__}")
    if found.name != point.name:
        raise _unusable(point, f"it calls itself {found.name}")
    return found


def _unusable(point: EntryPoint, reason: str) -> ConfigError:
    where = f"{point.value}, which a package enters"
    return ConfigError(f"the format {point.name} ({where}) cannot be used: {reason}")


FORMATS = FormatRegistry()
"""What this process knows; `FORMATS.register` adds to it."""
