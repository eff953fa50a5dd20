"""The registry of agent classes by the names that logs record.

A log never contains an import path, so reading it cannot run code that the program did not
register.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any, Protocol, TypeVar

from harken.core.arguments import check_arguments, check_choices
from harken.core.verdict import HOOK_POINTS
from harken.errors import NameNotFound

Kind = TypeVar("Kind", bound=type)
_classes: dict[str, Any] = {}
_lazy_modules: dict[str, str] = {}


class HasKinds(Protocol):
    """The part of a runtime that the registry needs."""

    @property
    def kinds(self) -> Mapping[str, type]:
        """The classes of this runtime besides the registered classes."""
        ...


@check_arguments
def register_agent_class(name: str) -> Callable[[Kind], Kind]:
    """Register a class of agents under the name that logs record.

    A class that is defined again, as in a notebook, replaces the earlier one. Raises TypeError for
    a class that is no agent, ValueError if another class has the name.
    """

    def enter(kind: Kind) -> Kind:
        if not (isinstance(kind, type) and hasattr(kind, "_from_state")):
            raise TypeError(f"register({name!r}) is for a class of agents, not for {kind!r}")
        existing = _classes.get(name, kind)
        if (existing.__module__, existing.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(f"two kinds of agents are registered as {name}: choose another name")
        kind._kind = name  # type: ignore[attr-defined]
        _classes[name] = kind
        return kind

    return enter


def registered_name(kind: type) -> str:
    """Return the name that logs record for a registered class of agents."""
    return str(kind._kind)  # type: ignore[attr-defined]


def kind_name(kind: type, library: HasKinds) -> str:
    """Return the registered name of exactly this class, else its name in the library, if any."""
    names = (name for name, registered in library.kinds.items() if registered is kind)
    return str(vars(kind).get("_kind") or next(names, registered_name(kind)))


def register_lazy(modules: Mapping[str, str]) -> None:
    """Set the modules, by registered name, that are imported when their class is first needed."""
    _lazy_modules.update(modules)


def get_agent_class(name: str, library: HasKinds) -> Any:
    """Return the class of agents that logs record under this name. Raises NameNotFound."""
    kind = library.kinds.get(name) or _classes.get(name)
    if kind is None and name in _lazy_modules:
        import_module(_lazy_modules[name])
        kind = _classes[name]
    if kind is None:
        names = {*_classes, *_lazy_modules, *library.kinds}
        raise NameNotFound("registered agent class", name, names)
    return kind


def check_registered(kind: type, name: str, library: HasKinds) -> None:
    """Raise TypeError if a resume would make an agent of another class than this."""
    try:
        resumed = get_agent_class(name, library)
    except NameNotFound:
        resumed = None
    if resumed is None or (resumed is not kind and issubclass(kind, resumed)):
        raise TypeError(
            f"{kind.__name__} is not registered, so a resume would not find it: "
            f'put @register("...") above the class'
        )


def check_points(kind: type) -> None:
    """Check the points that a class names as those where its hooks are asked.

    Raises TypeError if they are no set of str, ValueError for an unknown point.
    """
    points = kind.__dict__.get("points")
    if points is None or isinstance(points, property):
        return
    if isinstance(points, str) or not isinstance(points, Collection):
        raise TypeError(f"{kind.__name__}: points must be a set of str, not {points!r}")
    check_choices(points, sorted(HOOK_POINTS), f"a point at which {kind.__name__} can be asked")
