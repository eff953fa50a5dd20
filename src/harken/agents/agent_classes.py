"""The registry of agent classes: the names that logs record, and the classes that they mean.

A log never names an import path, so that what it says cannot run code that the program did not
register.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any, Protocol, TypeVar

from harken.core.arguments import check_arguments, check_choices
from harken.core.verdict import POINTS
from harken.errors import NameNotFound

Kind = TypeVar("Kind", bound=type)
_kinds: dict[str, Any] = {}
_later: dict[str, str] = {}


class HasKinds(Protocol):
    """A runtime, as far as the registry needs one."""

    @property
    def kinds(self) -> Mapping[str, type]:
        """Return the classes that this runtime knows beside the registered ones."""
        ...


@check_arguments
def register_agent_class(name: str) -> Callable[[Kind], Kind]:
    """Register a class of agents under the name that logs record.

    A class that is defined again, as in a notebook, takes the place of the one before. Raises
    TypeError for a class that is no agent, ValueError where another class has the name.
    """

    def enter(kind: Kind) -> Kind:
        if not (isinstance(kind, type) and hasattr(kind, "from_state")):
            raise TypeError(f"register({name!r}) is for a class of agents, not for {kind!r}")
        before = _kinds.get(name, kind)
        if (before.__module__, before.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(f"two kinds of agents are registered as {name}: choose another name")
        kind.kind = name  # type: ignore[attr-defined]
        _kinds[name] = kind
        return kind

    return enter


def register_lazy(modules: Mapping[str, str]) -> None:
    """Say in which modules, by registered name, classes are that `register` enters when needed."""
    _later.update(modules)


def get_agent_class(name: str, runtime: HasKinds) -> Any:
    """Return the class of agents that logs record under this name. Raises NameNotFound."""
    kind = runtime.kinds.get(name) or _kinds.get(name)
    if kind is None and name in _later:
        import_module(_later[name])
        kind = _kinds[name]
    if kind is None:
        known = {*_kinds, *_later, *runtime.kinds}
        raise NameNotFound("registered kind of agent", name, known)
    return kind


def check_registered(kind: type, name: str, runtime: HasKinds) -> None:
    """Raise TypeError if a resume would make an agent of another class than this."""
    try:
        resumed = get_agent_class(name, runtime)
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
    check_choices(points, sorted(POINTS), f"a point at which {kind.__name__} can be asked")
