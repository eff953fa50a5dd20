"""Nobody who comes from a watched agent gets out from under its guard: all ways, searched.

Agents, their hooks, their subagents and the hooks of those do all that they can, one action after
another, in a plain model of the tree (that it is Harken's, `test_structure` shows). Before, amid
or after that the user puts a guard above the agent that he talks with. Then each agent that was
there below it, and each that comes from one of those, is watched by that guard or a copy of it,
and by nobody else that is asked as late, unless it only judges as a hook: others judge what it
makes then.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from tests.property.tree_model import Node, Tree, Wrong

Address: TypeAlias = tuple[tuple[bool, int], ...]
"""The way from the primary: whether a hook is next, and which one."""


@dataclass
class State:
    """A tree, its guard, and what was done so far."""

    tree: Tree
    guard: Node | None = None
    done: tuple[str, ...] = ()

    def at(self, address: Address) -> Node:
        one = self.tree.primary
        for is_hook, number in address:
            one = (one.hooks if is_hook else one.subs)[number]
        return one

    def after(self, address: Address, action: str, arguments: dict[str, Any]) -> State | None:
        """Return what it comes to; None where that cannot be done."""
        new = deepcopy(self)
        who = new.at(address)
        try:
            new.tree.do(who, action, arguments)
        except Wrong:
            return None
        new.done += (f"{who.name}: {action} {arguments}",)
        return new

    def guarded(self) -> State:
        """Return it with a guard, just put there by the user."""
        new = deepcopy(self)
        primary = new.tree.primary
        new.guard = new.tree.guard(primary, "guard (of the user)")
        for one in _below(primary):
            one.concerned = True
        new.done += (f"the user: a guard for {primary.name}",)
        return new

    def evading(self) -> list[str]:
        guard = self.guard
        if guard is None:
            return []
        everybody = (one for _, one in addresses(self.tree) if one.original is not guard)
        acting = (one for one in everybody if one.concerned and one.acts)
        return [one.name for one in acting if not self._has_last_word(guard, one)]

    def _has_last_word(self, guard: Node, one: Node) -> bool:
        """Whether a guard watches somebody, and nobody else does that is asked after it."""
        last = [hook for hook in one.hooks if not (hook.own or hook.moved)]
        return bool(last) and all(hook.original is guard for hook in last)

    def key(self) -> Any:
        def shape(one: Node) -> Any:
            is_guard = self.guard is not None and one.original is self.guard
            said = (one.name, one.own, one.moved, one.silent, one.bare, one.watches, one.concerned)
            below = (tuple(map(shape, one.subs)), tuple(map(shape, one.hooks)))
            return (*said, is_guard, one.original.name, *below)

        files = sorted((path, shape(one)) for path, one in self.tree.files.items())
        return shape(self.tree.primary), tuple(files)


def _below(one: Node) -> Iterator[Node]:
    yield one
    for other in [*one.subs, *(hook for hook in one.hooks if hook.own)]:
        yield from _below(other)


def addresses(tree: Tree) -> list[tuple[Address, Node]]:
    found: list[tuple[Address, Node]] = [((), tree.primary)]
    for address, one in found:  # grows
        found += [((*address, (True, at)), hook) for at, hook in enumerate(one.hooks)]
        found += [((*address, (False, at)), sub) for at, sub in enumerate(one.subs)]
    return found


def wishes(one: Node, tree: Tree) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what an agent may try."""
    if one.place == "hook":
        yield from (("meta", {}), ("quit", {}))
    if one.bare:
        return
    subs = [sub.name for sub in one.subs]
    deeper = [f"{sub.name}/{other.name}" for sub in one.subs for other in sub.subs]
    yield from (("task", {"name": name}) for name in ("k", "l"))
    yield from (("hook", {"name": name}) for name in ("k", "guard (of the user)"))
    yield "hook", {"name": "b", "tools": []}
    yield from (("terminate", {"name": name}) for name in subs)
    yield from (("endo", {"subagent": name}) for name in subs)
    yield from (("talk_with", {"name": name}) for name in [*subs, *deeper])
    for name in subs:
        for into in (None, *subs):
            yield "clone", {"name": name, "into": into, "as_name": "m"}
    yield from (("dump", {"path": "f", "name": name}) for name in (None, *subs))
    if tree.files:
        yield "restore", {"path": "f", "name": "r"}


def steps(state: State) -> Iterator[State]:
    """Yield all that one action comes to."""
    for address, one in addresses(state.tree):
        is_guard = state.guard is not None and one.original is state.guard
        if one.is_code or one.silent or is_guard:
            continue
        for action, arguments in wishes(one, state.tree):
            new = state.after(address, action, arguments)
            if new is not None:
                yield new


def search(depth: int, after: int) -> int:
    """Take so many actions, in all ways, and so many after a guard came; return how many states.

    Raises AssertionError with what was done, where somebody evades the guard.
    """
    row = [State(Tree(Node("main", "primary")))]
    seen: set[Any] = set()
    later: set[Any] = set()
    for left in range(depth, -1, -1):
        watched = [state.guarded() for state in row if state.guard is None]
        for state in watched:
            assert not state.evading(), state.done
        if left == depth:
            row = [*row, *watched]  # from the beginning, as far as it goes
        else:
            for _ in range(min(after, left)):
                watched = _next(watched, later)
        row = _next(row, seen) if left else []
    return len(seen) + len(later)


def _next(row: list[State], seen: set[Any]) -> list[State]:
    found: list[State] = []
    for state in row:
        for new in steps(state):
            assert not new.evading(), new.done
            if (key := new.key()) not in seen:
                seen.add(key)
                found.append(new)
    return found


@pytest.mark.req("S4-28", "S4-29", "S4-38", "S4-39")
def test_no_three_actions_evade_a_guard() -> None:
    assert search(3, after=1) > 500


@pytest.mark.full
def test_no_four_actions_evade_a_guard() -> None:
    assert search(4, after=2) > 5_000
