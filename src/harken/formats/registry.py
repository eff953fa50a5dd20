"""The registry of formats: those of Harken, of installed packages, and of the running program.

A format is imported on its first use. So unused formats cost no start time, and a broken package is
an error only for callers that name its format.

A package registers a format under the entry point `harken.formats`: the name of the format and the
location of the `Format`. A built-in format cannot be replaced.
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
    "adk-events-v1": "harken.formats.frameworks.adk_events",
    "atif-v1": "harken.formats.runtimes.research.atif",
    "claude-entries-v1": "harken.formats.frameworks.claude_entries",
    "claude-code-v1": "harken.formats.runtimes.claude_code.reader",
    "codex-v1": "harken.formats.runtimes.codex.reader",
    "events-v1": "harken.formats.events_v1",
    "framework-records-v1": "harken.formats.frameworks.records",
    "gemini-cli-v1": "harken.formats.runtimes.gemini_cli.reader",
    "messages-v1": "harken.formats.messages_v1",
    "narrative-v1": "harken.formats.narrative",
    "openai-items-v1": "harken.formats.frameworks.openai_items",
    "openai-run-state-v1": "harken.formats.frameworks.openai_run_state",
    "opencode-v1": "harken.formats.runtimes.opencode.reader",
    "pydantic-messages-v1": "harken.formats.frameworks.pydantic_messages",
    "pi-v3": "harken.formats.runtimes.pi.reader",
}
_REVISIONS: dict[str, int] = {}
"""Revisions of the built-in formats, if not 1. A cached rendering is looked up without importing
its format.
"""


def _installed() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and seldom needed

    return entry_points(group=GROUP)


@check_arguments
class FormatRegistry:
    """Formats by name."""

    def __init__(
        self, *more: Format, installed: Callable[[], Iterable[EntryPoint]] = _installed
    ) -> None:
        """Register the formats of Harken, of installed packages, and `more`."""
        self._installed = installed
        self._points_by_name: Mapping[str, EntryPoint] | None = None
        self._loaded: dict[str, Format] = {}
        for format_ in more:
            self.register(format_)

    def register(self, format: Format) -> Format:
        """Add a format and return it. Raises ValueError if another format has its name."""
        if format.name in _BUILT_IN or self._loaded.get(format.name, format) is not format:
            raise ValueError(f"the format {format.name} exists; choose another name")
        self._loaded[format.name] = format
        return format

    def get(self, name: str) -> Format | None:
        """Return the format with this name. Return None if no such format is registered.

        Raises ConfigError if the package of the format cannot be loaded.
        """
        if name not in self._loaded:
            if name in _BUILT_IN:
                self._loaded[name] = importlib.import_module(_BUILT_IN[name]).FORMAT
            elif name in self._entry_points():
                self._loaded[name] = _loaded(self._entry_points()[name])
        return self._loaded.get(name)

    def get_revision(self, name: str) -> int:
        """Return the revision of a format's writer, without importing formats of Harken.

        The revision of an unknown format is 1. Raises ConfigError as `get`.
        """
        if name in _BUILT_IN:
            return _REVISIONS.get(name, 1)
        format_ = self.get(name)
        return 1 if format_ is None else format_.revision

    def find(self, given: str) -> Format:
        """Return the format with this name, or the only one with this prefix.

        Raises NameNotFound and AmbiguousName, which list the candidates, and ConfigError as `get`.
        """
        names = [name for name in self.list_names() if given and name.startswith(given)]
        format_ = self.get(given if given in names else names[0] if len(names) == 1 else "")
        if format_ is not None:
            return format_
        if names:
            raise AmbiguousName("format", given, names)
        raise NameNotFound("format", given, self.list_names())

    def find_reader(self, name: str) -> Reader | None:
        """Return the reader for bytes of a format. Return None if there is none.

        A later version of the format may read them with an upgrade.
        """
        format_ = self.get(name)
        if format_ is not None:
            return format_.reads
        for later in filter(None, map(self.get, self.list_names())):
            if name in later.upgrades and later.reads is not None:
                upgrade, reads = later.upgrades[name], later.reads
                return lambda data: reads(upgrade(data))
        return None

    def list_names(self) -> list[str]:
        """Return the names of all formats, sorted, without imports."""
        return sorted({*_BUILT_IN, *self._entry_points(), *self._loaded})

    def _entry_points(self) -> Mapping[str, EntryPoint]:
        if self._points_by_name is None:
            self._points_by_name = {point.name: point for point in self._installed()}
        return self._points_by_name


def _loaded(point: EntryPoint) -> Format:
    try:
        format_ = point.load()
    except Exception as error:  # A foreign package may raise anything.
        raise _unusable_error(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(format_, Format):
        raise _unusable_error(point, f"it is {type(format_).__name__}, not a Format")
    if format_.name != point.name:
        raise _unusable_error(point, f"its name is {format_.name}")
    return format_


def _unusable_error(point: EntryPoint, reason: str) -> ConfigError:
    location = f"{point.value}, which a package enters"
    return ConfigError(f"the format {point.name} ({location}) cannot be used: {reason}")


FORMATS = FormatRegistry()
"""The registry of this process; `FORMATS.register` adds to it."""
