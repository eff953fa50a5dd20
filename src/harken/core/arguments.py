"""Argument checks: a wrong type or value is an error at the call that passes it.

`check_arguments` decorates a public function, or a class for its constructor. It compares each
argument with its annotation and raises TypeError for a wrong type, ValueError for a string that is
none of a Literal's values. The text names the argument, the value and what is possible. An
annotation that exists for type checkers only, or that has no runtime meaning, accepts everything.
The value of an argument that may hold a credential is never part of a text.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

Checked = TypeVar("Checked", bound=Callable[..., Any])

_MAX_MEMBERS = 6
"""Larger protocols are named in errors without their members."""
_SECRET_NAMES = frozenset({"api_key", "headers", "password", "token"})
_MAX_VALUE_CHARS = 60
_MAX_CHECKED_ITEMS = 64
"""Items of a list or dict that are checked: a check of a long conversation must stay fast."""
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_SEQUENCE_TYPES: Mapping[Any, frozenset[type]] = {
    list: frozenset([list]),
    tuple: frozenset([tuple]),
    Sequence: frozenset([list, tuple]),
    Iterable: frozenset([list, tuple]),
}
"""Annotations that have items of one type, and the types of values that are checked quickly."""


class _Mismatch(NamedTuple):
    """A value that does not match an annotation, and its position in the argument."""

    place: str
    value: object
    expected: str
    error: type[Exception]
    choices: tuple[object, ...] = ()


def check_arguments(target: Checked) -> Checked:
    """Decorate a function, or a class for its constructor, to check its arguments at each call."""
    if isinstance(target, type):
        constructor: Any = target.__dict__["__init__"]
        type.__setattr__(target, "__init__", _wrap_with_checks(constructor, is_constructor=True))
        return target
    return cast(Checked, _wrap_with_checks(target, is_constructor=False))


def format_suggestion(typed: object, choices: Iterable[str]) -> str:
    """Return a hint that suggests the most similar valid name, or "" if there is none.

    >>> format_suggestion("turm", ["turn", "always"]), format_suggestion("x", ["turn"])
    ("; did you mean 'turn'?", '')
    """
    if not isinstance(typed, str):
        return ""
    names = [*choices]
    matches = get_close_matches(typed, names, n=1)
    if not matches:  # `prompt` should suggest `system_prompt`.
        matches = [name for name in names if get_close_matches(typed, name.split("_"), n=1)]
    return format_alternatives(matches[:1])


def format_alternatives(names: Sequence[str]) -> str:
    """Return a hint that asks whether the user meant one of these names, or "" without names.

    >>> format_alternatives(["turn", "always"])
    "; did you mean 'turn' or 'always'?"
    """
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""


def format_existing(
    names: Iterable[str], kind: str, *, typed: object = None, adjective: str = "existing"
) -> str:
    """Return the end of an error about an unknown name: a suggestion, and the existing names.

    >>> format_existing(["turn", "always"], "points"), format_existing([], "points")
    ('; existing points: turn, always', '; no points exist')
    >>> format_existing(["turn", "always"], "points", typed="turm")
    "; did you mean 'turn'? Existing points: turn, always"
    """
    choices = [*names]
    if not choices:
        return f"; no {kind} exist"
    hint = format_suggestion(typed, choices)
    label = f"{hint} {adjective.capitalize()}" if hint else f"; {adjective}"
    return f"{label} {kind}: {', '.join(choices)}"


def check_fields(value: object) -> None:
    """Raise TypeError or ValueError for the first field of a struct that does not match its type.

    For the `__post_init__` of a msgspec struct, whose constructor is not a Python function.
    """
    kind = type(value)
    for name, annotation in inspect.get_annotations(kind, eval_str=True).items():
        mismatch = _find_mismatch(getattr(value, name), annotation, name)
        if mismatch is not None:
            raise mismatch.error(f"{kind.__name__}: {_format_mismatch(mismatch)}")


def check_text(value: object, label: str) -> None:
    """Raise TypeError if a value that an agent will read is not a str."""
    if not isinstance(value, str):
        raise TypeError(f"{label} must be a str, not {_format_value(value)}")


def check_choices(values: Iterable[object], choices: Iterable[str], label: str) -> None:
    """Raise ValueError for the first value that is not a valid name."""
    valid_names = [*choices]
    for value in values:
        if value not in valid_names:
            raise ValueError(
                f"{value!r} is not {label}"
                + format_existing(valid_names, "names", typed=value, adjective="valid")
            )


def _wrap_with_checks(function: Callable[..., Any], *, is_constructor: bool) -> Callable[..., Any]:
    checks = _Checks(function, is_constructor=is_constructor)

    @wraps(function)
    def checked_call(*args: Any, **kwargs: Any) -> Any:
        checks.check(args, kwargs)
        return function(*args, **kwargs)

    return checked_call


class _ExactTypes(NamedTuple):
    """Types of which direct instances match an annotation, so that `_compared` is not needed."""

    values: frozenset[type] = frozenset()
    containers: frozenset[type] = frozenset()
    """Types of lists and tuples that match if their items have the types `items`."""
    items: frozenset[type] = frozenset()
    choices: tuple[object, ...] = ()
    """The values of a Literal."""
    is_any: bool = False

    def include(self, value: object) -> bool:
        """Whether a value certainly matches. False means undecided."""
        kind = type(value)
        if self.is_any or kind in self.values or (kind is str and value in self.choices):
            return True
        if kind not in self.containers:
            return False
        first_items = islice(cast(Sequence[object], value), _MAX_CHECKED_ITEMS)
        return self.items.issuperset(map(type, first_items))


@dataclass
class _Checks:
    """The checks of one function. Its annotations are evaluated at the first call."""

    function: Callable[..., Any]
    is_constructor: bool

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @cached_property
    def annotations(self) -> dict[str, Any]:
        parameters = self.signature.parameters.values()
        return {
            parameter.name: _evaluate_annotation(self.function, parameter.annotation)
            for parameter in parameters
        }

    @cached_property
    def positional(self) -> list[str]:
        """The names of the parameters that may be passed by position."""
        parameters = self.signature.parameters.values()
        return [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]

    @cached_property
    def exact_types(self) -> dict[str, _ExactTypes]:
        return {name: _exact_types(annotation) for name, annotation in self.annotations.items()}

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError or ValueError for the first argument that does not match."""
        if self._has_exact_types(args, kwargs):
            return
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            self._check_names(args, kwargs)
            return  # The call itself raises the error for a missing argument.
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            items = value if kind is inspect.Parameter.VAR_POSITIONAL else [value]
            for item in () if kind is inspect.Parameter.VAR_KEYWORD else items:
                mismatch = _find_mismatch(item, self.annotations[name], name)
                if mismatch is not None:
                    raise mismatch.error(
                        f"{self._callee_name(args)}: {_format_mismatch(mismatch)}"
                    ) from None

    def _has_exact_types(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the types of all arguments certainly match, so that no binding is needed."""
        if len(args) > len(self.positional):
            return False
        for name, value in (*zip(self.positional, args, strict=False), *kwargs.items()):
            types_ = self.exact_types.get(name)
            if types_ is None or not types_.include(value):
                return False
        return True

    def _check_names(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError for a keyword that the function does not have."""
        parameters = self.signature.parameters.values()
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
            return
        names = [parameter.name for parameter in parameters if parameter.kind not in _VARIADIC]
        names = names[1:] if self.is_constructor else names
        for name in kwargs:
            if name not in names:
                raise TypeError(
                    f"{self._callee_name(args)} has no argument "
                    f"{name!r}" + format_existing(names, "arguments", typed=name, adjective="valid")
                ) from None

    def _callee_name(self, args: Sequence[Any]) -> str:
        return type(args[0]).__name__ if self.is_constructor and args else self.function.__name__


def _evaluate_annotation(function: Callable[..., Any], annotation: Any) -> Any:
    """Return an annotation as a type. Return Any for one that exists for type checkers only."""
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return eval(annotation, names)  # noqa: S307 - the source of this package
    except (NameError, AttributeError):
        return Any


def _exact_types(annotation: Any) -> _ExactTypes:
    """Return the types that certainly match, or none if `_compared` must decide."""
    if _accepts_everything(annotation):
        return _ExactTypes(is_any=True)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        options = [_exact_types(option) for option in args]
        sequence_options = [option for option in options if option.containers]
        items_option = sequence_options[0] if len(sequence_options) == 1 else _ExactTypes()
        return _ExactTypes(
            frozenset[type]().union(*(option.values for option in options)),
            items_option.containers,
            items_option.items,
            tuple(choice for option in options for choice in option.choices),
            any(option.is_any for option in options),
        )
    if origin is Literal:
        return _ExactTypes(choices=args)
    if origin in _SEQUENCE_TYPES and (len(args) == 1 or args[1:] == (Ellipsis,)):
        items = _exact_types(args[0])
        return _ExactTypes(containers=_SEQUENCE_TYPES[origin], items=items.values)
    kind = type(None) if annotation is None else annotation
    is_plain = isinstance(kind, type) and origin is None and kind is not float
    return _ExactTypes(frozenset([kind]) if is_plain else frozenset())


def _accepts_everything(annotation: Any) -> bool:
    return annotation is Any or annotation is object or isinstance(annotation, TypeVar)


def _find_mismatch(value: object, annotation: Any, place: str) -> _Mismatch | None:
    """Return the mismatch of a value and an annotation. Return None if it matches."""
    if _accepts_everything(annotation):
        return None
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return _find_union_mismatch(value, annotation, place)
    if origin is Literal:
        choices = get_args(annotation)
        if isinstance(value, str) and value in choices:
            return None
        error = ValueError if isinstance(value, str) else TypeError
        return _Mismatch(place, value, _format_annotation(annotation), error, choices)
    runtime = type(None) if annotation is None else origin or annotation
    if not isinstance(runtime, type) or _is_instance(value, runtime):
        return _find_item_mismatch(value, get_args(annotation), place)
    return _Mismatch(place, value, _format_annotation(annotation), TypeError)


def _find_union_mismatch(value: object, annotation: Any, place: str) -> _Mismatch | None:
    mismatches = []
    for option in get_args(annotation):
        mismatch = _find_mismatch(value, option, place)
        if mismatch is None:
            return None
        mismatches.append(mismatch)
    inner_mismatches = [
        mismatch
        for mismatch in mismatches
        if mismatch.place != place or mismatch.error is ValueError
    ]
    return (
        inner_mismatches[0]
        if inner_mismatches
        else _Mismatch(place, value, _format_annotation(annotation), TypeError)
    )


def _find_item_mismatch(value: object, items: Sequence[Any], place: str) -> _Mismatch | None:
    """Compare the items of a list, tuple, set or dict. An iterator would be exhausted by this."""
    pairs: Iterator[tuple[str, object, Any]] = iter(())
    if isinstance(value, dict) and len(items) == 2:
        entries = [*islice(value.items(), _MAX_CHECKED_ITEMS)]
        pairs = ((f"{place}[{key!r}]", item, items[1]) for key, item in entries)
        for key, _ in entries:
            if _find_mismatch(key, items[0], place) is not None:
                return _Mismatch(f"a key of {place}", key, _format_annotation(items[0]), TypeError)
    elif isinstance(value, list | tuple | set | frozenset) and items and items[0] is not Ellipsis:
        is_fixed = isinstance(value, tuple) and len(items) > 1 and items[-1] is not Ellipsis
        first = () if is_fixed else islice(value, _MAX_CHECKED_ITEMS)
        pairs = ((f"{place}[{index}]", item, items[0]) for index, item in enumerate(first))
    mismatches = (_find_mismatch(item, annotation, path) for path, item, annotation in pairs)
    return next((mismatch for mismatch in mismatches if mismatch is not None), None)


def _is_instance(value: object, type_: type) -> bool:
    """Whether a value is an instance. A str is no sequence, a bool no number, an int is a float."""
    if isinstance(value, bool):
        return type_ in (bool, object)
    if type_ is float:
        return isinstance(value, int | float)
    if type_.__name__ == "Callable":
        return callable(value)
    if type(value) is type_:
        return True
    if isinstance(value, str | bytes) and type_ not in (str, bytes) and hasattr(type_, "__iter__"):
        return False
    if getattr(type_, "_is_protocol", False) and type_.__module__ not in ("typing", "os"):
        members = _protocol_members(type_)
        is_class = isinstance(value, type)
        return not is_class and all(hasattr(type(value), m) or hasattr(value, m) for m in members)
    return isinstance(value, type_)


@lru_cache(maxsize=256)
def _protocol_members(protocol: type) -> tuple[str, ...]:
    """Return the public names that an implementation of a protocol has."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    names = [
        name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", ()))
    ]
    return tuple(dict.fromkeys(n for n in names if not n.startswith("_") or n == "__call__"))


def _format_annotation(annotation: Any) -> str:
    """Describe the values that an annotation accepts, for an error text.

    >>> _format_annotation(str | Path | None), _format_annotation(Sequence[str])
    ('str, Path or None', 'Sequence of str')
    >>> _format_annotation(Literal["a", "b"])
    "'a' or 'b'"
    """
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _join_options([_format_annotation(option) for option in args])
    if origin is Literal:
        return _join_options([repr(option) for option in args])
    if annotation in (None, type(None)):
        return "None"
    name = getattr(origin or annotation, "__name__", str(annotation))
    if name == "Callable":
        return "callable"
    if getattr(origin or annotation, "_is_protocol", False):
        members = _protocol_members(origin or annotation)
        return name if len(members) > _MAX_MEMBERS else f"{name} (with {', '.join(members)})"
    if origin is not None and args and args[0] is not Any:
        item_annotation = args[1] if len(args) == 2 and args[1] is not Ellipsis else args[0]
        return (
            f"{name} of {_format_annotation(item_annotation)}"
            if item_annotation is not Any
            else str(name)
        )
    return str(name)


def _join_options(options: Sequence[str]) -> str:
    options = [*dict.fromkeys(options)]
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def _format_mismatch(mismatch: _Mismatch) -> str:
    name = mismatch.place.removeprefix("a key of ").partition("[")[0]
    value_text = _format_value(mismatch.value, is_secret=name in _SECRET_NAMES)
    choices = [choice for choice in mismatch.choices if isinstance(choice, str)]
    hint = format_suggestion(mismatch.value, choices) or _format_hint(mismatch)
    return f"{mismatch.place} must be {mismatch.expected}, not {value_text}{hint}"


def _format_value(value: object, *, is_secret: bool = False) -> str:
    """Return a value and its type. The text of a credential is left out."""
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.iscoroutine(value):
        return f"a coroutine of {value.__name__} that was not awaited"
    if inspect.isfunction(value):
        return f"the function {value.__name__}"
    if is_secret or not isinstance(value, str | bytes | int | float | list | tuple | dict | Path):
        return f"a value of type {kind}"
    text = repr(value)
    return f"{text if len(text) <= _MAX_VALUE_CHARS else text[:_MAX_VALUE_CHARS] + '...'} ({kind})"


def _format_hint(mismatch: _Mismatch) -> str:
    value, expected = mismatch.value, mismatch.expected
    if inspect.isgenerator(value):
        return "; pass list(...) of it"
    if isinstance(value, type):
        return f"; pass an instance: {value.__name__}(...)"
    if isinstance(value, str) and "Path" in expected.split(" or ")[0].split(", "):
        return f"; pass Path({value!r})"
    if isinstance(value, str) and " of str" in expected:
        return f"; pass [{value[:_MAX_VALUE_CHARS]!r}]"
    return ""
