"""The names of the spans of a sample, by which model calls beside its conversation are grouped.

Newer logs have spans with parents, and each event names its span. Older logs have steps and
subtasks, which begin and end around their events.
"""

from __future__ import annotations

import msgspec

from harken.formats.json_records import Record, get_text

OTHER = "model"
"""The name for calls outside any span."""
_MAX_DEPTH = 100


class Spans(msgspec.Struct):
    """The spans that events were in so far."""

    _parents: dict[str, str] = msgspec.field(default_factory=dict)
    _names: dict[str, str] = msgspec.field(default_factory=dict)
    _open: list[str] = msgspec.field(default_factory=list)
    """The names of the open steps and subtasks, the innermost last."""

    def add(self, event: Record) -> bool:
        """Note the beginning or end of a span. Return False for an event of another kind."""
        kind, id_ = get_text(event, "event"), get_text(event, "id")
        if kind == "span_begin":
            self._parents[id_] = get_text(event, "parent_id") or get_text(event, "span_id")
            self._names[id_] = get_text(event, "name")
        elif kind in ("step", "subtask"):
            if get_text(event, "action") == "end":
                if self._open:
                    self._open.pop()
            elif get_text(event, "action") == "begin":
                self._open.append(get_text(event, "name"))
        return kind in ("span_begin", "span_end", "step", "subtask")

    def find_name(self, event: Record) -> str:
        """Return the name of the innermost span of an event that has one."""
        span = get_text(event, "span_id")
        for _ in range(_MAX_DEPTH):
            if self._names.get(span):
                return self._names[span]
            if self._parents.get(span, span) == span:
                break
            span = self._parents[span]
        return next(filter(None, reversed(self._open)), OTHER)
