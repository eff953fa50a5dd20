"""Splitting a body into JSON slices without parsing them, and extraction of marks.

JSON can be split at its commas far faster than it is parsed. So a long conversation is only split,
and the slices stay bytes.

Marks are members that carry nothing for the model and move from request to request. They are
removed from the slices and stored with their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical
from harken.errors import FormatError
from harken.formats.shared_list import SharedList
from harken.formats.wire.base import Body, BodyPrefix, Mark, ParsedRequest, Piece, PieceLookup
from harken.formats.wire.body_prefix import (
    MIN_ELEMENTS,
    ArrayElements,
    Text,
    build_prefix,
    find_array,
    find_array_end,
    has_placeholder,
    shorten_body,
)
from harken.formats.wire.json_patch import apply_form, build_form, set_at_path

"""A JSON text of a body. A raw value is not copied: for a megabyte, a copy would take as long as
all other work.
"""
BodyBuilder: TypeAlias = Callable[[ParsedRequest, Sequence[Any]], Body]
_MAX_REASON_CHARS = 120
MARKS = ("cache_control", "cache_reference")
_MARK_PREFIX = b'"cache_'
"""The common prefix of all marks. Inside of a JSON string the quotation mark is preceded by a
backslash, so text about marks does not match as a mark.
"""
_MAX_CACHED_BYTES = 1024 * 1024
_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array_decoder = msgspec.json.Decoder(list[msgspec.Raw])


class _EmptyPieceCache:
    """An empty piece cache."""

    def find(self, data: bytes) -> None:
        del data

    def intern(self, piece: Piece) -> Piece:
        return piece

    def find_prefix(self, body: bytes) -> None:
        del body

    def replace_prefix(self, old: BodyPrefix | None, new: BodyPrefix) -> None:
        del old, new


_NO_PIECES = _EmptyPieceCache()


def slice_body(
    protocol: str, body: bytes, identify: Callable[[Any], str], known: PieceLookup | None
) -> BodySlices:
    """Split a body into its members. Raises FormatError if it is no object.

    Of a body that begins like an earlier one, only the other elements are split.
    """
    cache = known or _NO_PIECES
    prefix = cache.find_prefix(body)
    if prefix is not None:
        with suppress(ValueError, RecursionError):
            short: dict[str, Text] = {**_object_decoder.decode(shorten_body(body, prefix))}
            if has_placeholder(short.get(prefix.name)):
                return BodySlices(short, identify, cache, body, prefix)
    return BodySlices(members(body, protocol), identify, cache, body)


def members(body: bytes, protocol: str) -> dict[str, Text]:
    """Return the members of an object as JSON texts. Raises FormatError."""
    try:
        return {**_object_decoder.decode(body)}
    except (ValueError, RecursionError):
        pass  # msgspec refuses lone surrogates and NaN; or it is no object.
    try:
        value = canonical.from_json(body)
        if isinstance(value, dict):
            return {name: canonical.to_json_line(inner) for name, inner in value.items()}
    except (ValueError, RecursionError) as error:
        raise FormatError(protocol, f"invalid JSON ({error})"[:_MAX_REASON_CHARS]) from None
    raise FormatError(protocol, "it is not a JSON object")


def starts_with(text: Text | None, prefix: bytes) -> bool:
    """Whether a member exists and begins with this byte, which shows its JSON type."""
    return text is not None and bytes(memoryview(text)[:1]) == prefix


def split_elements(text: Text | None) -> Sequence[Text] | None:
    """Return the elements of a list as JSON texts. Return None if the text is no list."""
    if text is None or not starts_with(text, b"["):
        return None
    try:
        return _array_decoder.decode(text)
    except (ValueError, RecursionError):
        pass
    value = parse_slice(text)
    return [canonical.to_json_line(inner) for inner in value] if isinstance(value, list) else None


def parse_slice(text: Text) -> Any:
    """Parse a JSON text of a body. Return the text itself if it cannot be parsed."""
    return Piece(bytes(text), str).raw


class BodySlices(msgspec.Struct):
    """A body during parsing. Extracted members are removed from its parameters."""

    members: dict[str, Text]
    identify: Callable[[Any], str]
    piece_cache: PieceLookup
    body: bytes
    prefix: BodyPrefix | None = None
    """The beginning of the body that is known. The first element of its array is a placeholder."""
    marks: list[Mark] = msgspec.field(default_factory=list)
    shape: Body = msgspec.field(default_factory=dict)

    def take_model(self, path_model: str = "") -> str:
        """Extract the model. `path_model` is the model of the path, for a body without one."""
        data = self.members.get("model")
        if data is None:
            if path_model:
                self.shape["model"] = False
            return path_model
        model = parse_slice(data)
        if not isinstance(model, str) or not model:
            return ""
        del self.members["model"]
        return model

    def take_array(self, name: str) -> Sequence[Text] | None:
        """Extract a member that is a list. Return None, and keep the member, if it is no list."""
        array = self.members.get(name)
        slices = split_elements(array)
        if slices is None or array is None:
            return None
        del self.members[name]
        prefix = self.prefix
        if prefix is not None and prefix.name == name:
            end = find_array_end(array, prefix)
            return ArrayElements(name, prefix.texts, slices[1:], prefix.start, end)
        if len(slices) >= MIN_ELEMENTS and isinstance(array, msgspec.Raw):
            start = find_array(self.body, name, array)
            if start is not None:
                end = start + len(memoryview(array))
                return ArrayElements(name, SharedList(), slices, start, end)
        return slices

    def pieces(
        self, slices: Sequence[Text], *path: str | int, leading: Iterable[Piece] = ()
    ) -> SharedList[Piece]:
        """Return the pieces of a request: the `leading` ones, and the elements of a list.

        path: of the list. The pieces of a list that was extracted are cached for the next request.
        """
        cache, array = self.piece_cache, slices if isinstance(slices, ArrayElements) else None
        new_slices = slices if array is None else array.new
        known_pieces = self._known_pieces(array, [*leading])
        new_pieces = [
            cache.find(data := bytes(text)) or self.piece(self.extract_marks(data, *path, index))
            for index, text in enumerate(new_slices, len(slices) - len(new_slices))
        ]
        pieces = known_pieces.with_end(new_pieces)
        return pieces if array is None else self._cache_prefix(array, pieces)

    def _known_pieces(
        self, array: ArrayElements | None, leading: Sequence[Piece]
    ) -> SharedList[Piece]:
        """Return the leading pieces of a request and those of the known elements of an array."""
        prefix = self.prefix
        if array is None or not array.known or prefix is None:
            return SharedList(leading)
        self.marks += prefix.marks
        if prefix.pieces[: prefix.leading_count] == leading:
            return prefix.pieces
        return SharedList([*leading, *prefix.pieces[prefix.leading_count :]])

    def _cache_prefix(self, array: ArrayElements, pieces: SharedList[Piece]) -> SharedList[Piece]:
        """Cache the beginning of the body. Return pieces that share it."""
        prefix = build_prefix(self.body, array, pieces, self.marks)
        if prefix is None:
            return pieces
        self.piece_cache.replace_prefix(self.prefix, prefix)
        return prefix.pieces.with_end(pieces[len(prefix.pieces) :])

    def piece(self, data: bytes) -> Piece:
        """Return a JSON text as a piece: the cached one, if any."""
        return self.piece_cache.intern(Piece(data, self.identify))

    def extract_marks(self, data: bytes, *path: str | int) -> bytes:
        """Return a message or a block without its marks, which are stored. path: of the value."""
        if _MARK_PREFIX not in data:
            return data
        value, marks = _extract_marks(parse_slice(data), path)
        self.marks += marks
        return canonical.to_json_line(value) if marks else data

    def take_tools(self, write: Callable[[Mapping[str, Any]], Any]) -> Sequence[Mapping[str, Any]]:
        """Extract the tools; `write` builds the usual wire form of one."""
        data = bytes(self.members.get("tools", b""))
        parse = _parse_tools if len(data) > _MAX_CACHED_BYTES else _cached_tools
        extracted = parse(data, write)
        if extracted is None:
            return ()
        del self.members["tools"]
        self.marks += extracted.marks
        return extracted.tools

    def build_request(
        self, model: str, pieces: Sequence[Piece], tools: Sequence[Mapping[str, Any]] = ()
    ) -> ParsedRequest:
        """Return the request. Members that were not extracted are its parameters."""
        return ParsedRequest(
            model=model,
            pieces=pieces,
            tools=tools,
            parameters={name: parse_slice(data) for name, data in self.members.items()},
            shape=self.shape or None,
            marks=self.marks,
        )


def build_body(
    request: ParsedRequest, piece_members: Body, write: Callable[[Mapping[str, Any]], Any]
) -> Body:
    """Build the body: the shared part of `put_together`. See `fitting` for its errors.

    piece_members: the members built from the pieces. write: as in `BodySlices.tools`.
    """
    body: Body = dict(request.parameters)
    if request.model and get_shape(request).get("model") is not False:
        body["model"] = request.model
    body |= piece_members
    if request.tools:
        body["tools"] = [apply_form(write(tool), tool.get("wire")) for tool in request.tools]
    return restore_marks(request, body)


def restore_marks(request: ParsedRequest, body: Body) -> Body:
    """Return a body with the marks of a request. See `fitting` for its errors."""
    for path, value in request.marks:
        body = set_at_path(body, path, value)
    return body


def with_format_errors(protocol: str, make: BodyBuilder) -> BodyBuilder:
    """Wrap a function that builds bodies, so that it raises FormatError for an invalid request."""

    def put_together(request: ParsedRequest, values: Sequence[Any]) -> Body:
        try:
            return make(request, values)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(protocol, f"its record does not fit ({error!r:.100})") from None

    return put_together


def get_shape(request: ParsedRequest) -> Body:
    """Return the shape of a request as an object."""
    return request.shape if isinstance(request.shape, dict) else {}


class _Tools(msgspec.Struct, frozen=True):
    tools: tuple[Body, ...]
    marks: list[Mark]


def _parse_tools(data: bytes, write: Callable[[Mapping[str, Any]], Any]) -> _Tools | None:
    """Return the tools. Return None if the data is no list of objects."""
    raw_tools = parse_slice(data) if data else None
    if not isinstance(raw_tools, list) or not raw_tools:
        return None
    if not all(isinstance(tool, dict) for tool in raw_tools):
        return None
    tools, marks = [], []
    for index, tool in enumerate(raw_tools):
        bare, tool_marks = _extract_marks(tool, ("tools", index))
        marks += tool_marks
        tools.append(parse_tool(bare, write))
    return _Tools(tuple(tools), marks)


_cached_tools = lru_cache(maxsize=32)(_parse_tools)
"""The cached variant: most requests repeat the tools of the previous one."""


def parse_tool(raw: Body, write: Callable[[Mapping[str, Any]], Any], manner: str = "") -> Body:
    """Return a tool as the log stores it, with the form of the remaining data.

    manner: the manner to store in the form, if `write` uses it.
    """
    function = raw.get("function")
    source = function if isinstance(function, dict) else raw
    name, description = source.get("name"), source.get("description")
    schemas = (source.get(kind) for kind in ("input_schema", "parameters", "parametersJsonSchema"))
    tool: Body = {
        "name": name if isinstance(name, str) else str(raw.get("type") or ""),
        "description": description if isinstance(description, str) else "",
        "parameters": next((schema for schema in schemas if isinstance(schema, dict)), {}),
    }
    form = build_form(write({**tool, "wire": {"as": manner}}), raw, manner)
    return tool if form is None else {**tool, "wire": form}


def _extract_marks(value: Any, path: Sequence[str | int]) -> tuple[Any, list[Mark]]:
    """Return a message, a block or a tool without its marks, and the marks.

    Marks stand in the value, in a block of its content, or in a block of the content of such a
    block. Further inside, a member of this name is content.
    """
    marks: list[Mark] = []

    def bare(holder: Any, holder_path: Sequence[str | int], levels: int) -> Any:
        if not isinstance(holder, dict):
            return holder
        marks.extend(([*holder_path, name], holder[name]) for name in MARKS if name in holder)
        members = {name: inner for name, inner in holder.items() if name not in MARKS}
        content = members.get("content")
        if levels and isinstance(content, list):
            members["content"] = [
                bare(block, [*holder_path, "content", index], levels - 1)
                for index, block in enumerate(content)
            ]
        return members

    return bare(value, path, 2), marks
