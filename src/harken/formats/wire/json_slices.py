"""A body cut into its members without being read, and the marks taken out of it.

One idea: JSON can be cut at its commas far faster than it is read. So of a long conversation only
the cuts are made, and what stands between them stays the bytes that it is.

Marks are members that say nothing to the model, and move from request to request: they are taken
out of what they stand in, and kept with the way to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical
from harken.errors import FormatError
from harken.formats.wire.base import Body, Mark, ParsedRequest, Piece, PieceLookup
from harken.formats.wire.json_patch import changed, form_of, with_set

Text: TypeAlias = bytes | msgspec.Raw
"""JSON, as it stands in a body. Of what is raw no copy is made: of a megabyte, that would take as
long as all else."""
Maker: TypeAlias = Callable[[ParsedRequest, Sequence[Any]], Body]
_REASON_CHARACTERS = 120
MARKS = ("cache_control", "cache_reference")
_HINT = b'"cache_'
"""How all of them begin. Inside of a text a quotation mark has a backslash before the name's end,
but also before its beginning: what is said of marks is no mark."""
_MOST_KEPT_BYTES = 1024 * 1024
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])


class _Nothing:
    """What was seen before, where nothing was."""

    def find(self, data: bytes) -> None:
        del data

    def of(self, piece: Piece) -> Piece:
        return piece


_NOTHING = _Nothing()


def cutting_of(
    protocol: str, body: bytes, identify: Callable[[Any], str], known: PieceLookup | None
) -> BodySlices:
    """Return a body that is to be taken apart. Raises FormatError where it is no object."""
    return BodySlices(members(body, protocol), identify, known or _NOTHING)


def members(body: bytes, protocol: str) -> dict[str, Text]:
    """Return the members of an object as JSON texts. Raises FormatError."""
    try:
        return {**_object.decode(body)}
    except (ValueError, RecursionError):
        pass  # lone surrogates and NaN, which msgspec refuses, or indeed no object
    try:
        value = canonical.from_json(body)
        if isinstance(value, dict):
            return {name: canonical.to_json_line(inner) for name, inner in value.items()}
    except (ValueError, RecursionError) as error:
        raise FormatError(protocol, f"it is no JSON ({error})"[:_REASON_CHARACTERS]) from None
    raise FormatError(protocol, "it is no JSON object")


def begins(text: Text | None, how: bytes) -> bool:
    """Whether a member is there and begins like this: what it is shows in one byte."""
    return text is not None and bytes(memoryview(text)[:1]) == how


def elements(text: Text | None) -> Sequence[Text] | None:
    """Return the elements of a list as JSON texts; None: it is none."""
    if text is None or not begins(text, b"["):
        return None
    try:
        return _array.decode(text)
    except (ValueError, RecursionError):
        pass
    value = value_of(text)
    return [canonical.to_json_line(inner) for inner in value] if isinstance(value, list) else None


def value_of(text: Text) -> Any:
    """Return the value of a JSON text that a body held; a text, where it cannot be read."""
    return Piece(bytes(text), str).raw


@dataclass(slots=True)
class BodySlices:
    """A body while it is taken apart: what is taken is no more among its parameters."""

    members: dict[str, Text]
    identify: Callable[[Any], str]
    known: PieceLookup
    marks: list[Mark] = field(default_factory=list)
    shape: Body = field(default_factory=dict)

    def model(self, named: str = "") -> str:
        """Take the model; `named`: the path says it, where the body does not."""
        data = self.members.get("model")
        if data is None:
            if named:
                self.shape["model"] = False
            return named
        model = value_of(data)
        if not isinstance(model, str) or not model:
            return ""
        del self.members["model"]
        return model

    def array(self, name: str) -> Sequence[Text] | None:
        """Take a member that is a list; None: it is none, and stays."""
        found = elements(self.members.get(name))
        if found is not None:
            del self.members[name]
        return found

    def pieces(self, cut: Iterable[Text], *path: str | int) -> list[Piece]:
        """Return the elements of a list as pieces, without their marks. path: to the list."""
        known = self.known
        return [
            known.find(data := bytes(text)) or self.piece(self.unmarked(data, *path, at))
            for at, text in enumerate(cut)
        ]

    def piece(self, data: bytes) -> Piece:
        """Return a JSON text as a piece: the one that was seen before, if it was."""
        return self.known.of(Piece(data, self.identify))

    def unmarked(self, data: bytes, *path: str | int) -> bytes:
        """Return a message or a block without its marks, which are kept. path: to it."""
        if _HINT not in data:
            return data
        value, found = _unmarked(value_of(data), path)
        self.marks += found
        return canonical.to_json_line(value) if found else data

    def tools(self, write: Callable[[Mapping[str, Any]], Any]) -> Sequence[Mapping[str, Any]]:
        """Take the tools of a list of such; `write` writes one plainly."""
        data = bytes(self.members.get("tools", b""))
        read = _tools if len(data) > _MOST_KEPT_BYTES else _tools_as_before
        found = read(data, write)
        if found is None:
            return ()
        del self.members["tools"]
        self.marks += found.marks
        return found.tools

    def asked(
        self, model: str, pieces: Sequence[Piece], tools: Sequence[Mapping[str, Any]] = ()
    ) -> ParsedRequest:
        """Return the request; what was not taken are its parameters."""
        return ParsedRequest(
            model=model,
            pieces=pieces,
            tools=tools,
            parameters={name: value_of(data) for name, data in self.members.items()},
            shape=self.shape or None,
            marks=self.marks,
        )


def put(asked: ParsedRequest, taken: Body, write: Callable[[Mapping[str, Any]], Any]) -> Body:
    """Return the body: what protocols share of `put_together`; see `fitting` for what it raises.

    taken: what was made of the pieces. write: as in `BodySlices.tools`.
    """
    body: Body = dict(asked.parameters)
    if asked.model and shape_of(asked).get("model") is not False:
        body["model"] = asked.model
    body |= taken
    if asked.tools:
        body["tools"] = [changed(write(tool), tool.get("wire")) for tool in asked.tools]
    return with_marks(asked, body)


def with_marks(asked: ParsedRequest, body: Body) -> Body:
    """Return a body with the marks of a request; see `fitting` for what it raises."""
    for path, value in asked.marks:
        body = with_set(body, path, value)
    return body


def fitting(protocol: str, make: Maker) -> Maker:
    """Return what puts requests together, and raises FormatError for one that is none."""

    def put_together(asked: ParsedRequest, values: Sequence[Any]) -> Body:
        try:
            return make(asked, values)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(protocol, f"its record does not fit ({error!r:.100})") from None

    return put_together


def shape_of(asked: ParsedRequest) -> Body:
    """Return the shape of a request as the object that it is."""
    return asked.shape if isinstance(asked.shape, dict) else {}


@dataclass(frozen=True, slots=True)
class _Tools:
    tools: tuple[Body, ...]
    marks: list[Mark]


def _tools(data: bytes, write: Callable[[Mapping[str, Any]], Any]) -> _Tools | None:
    """Return tools; None: it is no list of objects."""
    found = value_of(data) if data else None
    if not isinstance(found, list) or not found:
        return None
    if not all(isinstance(tool, dict) for tool in found):
        return None
    tools, marks = [], []
    for at, tool in enumerate(found):
        bare, taken = _unmarked(tool, ("tools", at))
        marks += taken
        tools.append(tool_of(bare, write))
    return _Tools(tuple(tools), marks)


_tools_as_before = lru_cache(maxsize=32)(_tools)
"""The same, where it is mostly known: a request brings the tools of the one before."""


def tool_of(raw: Body, write: Callable[[Mapping[str, Any]], Any], manner: str = "") -> Body:
    """Return a tool as the log has it, with the form of what that does not say.

    manner: the one that the form is to name, where `write` heeds it.
    """
    inside = raw.get("function")
    said = inside if isinstance(inside, dict) else raw
    name, told = said.get("name"), said.get("description")
    schemas = (said.get(kind) for kind in ("input_schema", "parameters", "parametersJsonSchema"))
    tool: Body = {
        "name": name if isinstance(name, str) else str(raw.get("type") or ""),
        "description": told if isinstance(told, str) else "",
        "parameters": next((one for one in schemas if isinstance(one, dict)), {}),
    }
    form = form_of(write({**tool, "wire": {"as": manner}}), raw, manner)
    return tool if form is None else {**tool, "wire": form}


def _unmarked(value: Any, path: Sequence[str | int]) -> tuple[Any, list[Mark]]:
    """Return a message, a block or a tool without its marks, and these.

    They stand in it, in a block of its content, or in a block of the content of such a block:
    further inside, a member of this name is something that was said.
    """
    marks: list[Mark] = []

    def bare(holder: Any, way: Sequence[str | int], levels: int) -> Any:
        if not isinstance(holder, dict):
            return holder
        marks.extend(([*way, name], holder[name]) for name in MARKS if name in holder)
        kept = {name: inner for name, inner in holder.items() if name not in MARKS}
        content = kept.get("content")
        if levels and isinstance(content, list):
            kept["content"] = [
                bare(block, [*way, "content", at], levels - 1) for at, block in enumerate(content)
            ]
        return kept

    return bare(value, path, 2), marks
