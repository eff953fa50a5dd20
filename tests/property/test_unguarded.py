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

from tests.property.tree_model import InvalidAction, Node, Tree

Address: TypeAlias = tuple[tuple[bool, int], ...]
"""The way from the primary: whether a hook is next, and which one."""


@dataclass
class State:
    """A tree, its guard, and what was done so far."""

    tree: Tree
    guard: Node | None = None
    done: tuple[str, ...] = ()

    def at(self, address: Address) -> Node:
        node = self.tree.primary
        for is_hook, number in address:
            node = (node.hooks if is_hook else node.subs)[number]
        return node

    def after(self, address: Address, action: str, arguments: dict[str, Any]) -> State | None:
        """Return what it comes to; None where that cannot be done."""
        new = deepcopy(self)
        node = new.at(address)
        try:
            new.tree.do(node, action, arguments)
        except InvalidAction:
            return None
        new.done += (f"{node.name}: {action} {arguments}",)
        return new

    def guarded(self) -> State:
        """Return it with a guard, just put there by the user."""
        new = deepcopy(self)
        primary = new.tree.primary
        new.guard = new.tree.guard(primary, "guard (of the user)")
        for node in _below(primary):
            node.concerned = True
        new.done += (f"the user: a guard for {primary.name}",)
        return new

    def evading(self) -> list[str]:
        guard = self.guard
        if guard is None:
            return []
        everybody = (node for _, node in addresses(self.tree) if node.original is not guard)
        acting = (node for node in everybody if node.concerned and node.acts)
        return [node.name for node in acting if not self._has_last_word(guard, node)]

    def _has_last_word(self, guard: Node, node: Node) -> bool:
        """Whether a guard watches somebody, and nobody else does that is asked after it."""
        last = [hook for hook in node.hooks if not (hook.own or hook.moved)]
        return bool(last) and all(hook.original is guard for hook in last)

    def key(self) -> Any:
        def shape(node: Node) -> Any:
            is_guard = self.guard is not None and node.original is self.guard
            members = (
                node.name,
                node.own,
                node.moved,
                node.silent,
                node.bare,
                node.watches,
                node.concerned,
            )
            below = (tuple(map(shape, node.subs)), tuple(map(shape, node.hooks)))
            return (*members, is_guard, node.original.name, *below)

        files = sorted((path, shape(node)) for path, node in self.tree.files.items())
        return shape(self.tree.primary), tuple(files)


def _below(node: Node) -> Iterator[Node]:
    yield node
    for child in [*node.subs, *(hook for hook in node.hooks if hook.own)]:
        yield from _below(child)


def addresses(tree: Tree) -> list[tuple[Address, Node]]:
    pairs: list[tuple[Address, Node]] = [((), tree.primary)]
    for address, node in pairs:  # grows
        pairs += [((*address, (True, index)), hook) for index, hook in enumerate(node.hooks)]
        pairs += [((*address, (False, index)), sub) for index, sub in enumerate(node.subs)]
    return pairs


def wishes(node: Node, tree: Tree) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what an agent may try."""
    if node.place == "hook":
        yield from (("meta", {}), ("quit", {}))
    if node.bare:
        return
    subs = [sub.name for sub in node.subs]
    deeper = [f"{sub.name}/{grandchild.name}" for sub in node.subs for grandchild in sub.subs]
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
    for address, node in addresses(state.tree):
        is_guard = state.guard is not None and node.original is state.guard
        if node.is_code or node.silent or is_guard:
            continue
        for action, arguments in wishes(node, state.tree):
            new = state.after(address, action, arguments)
            if new is not None:
                yield new


def search(depth: int, after: int) -> int:
    """Take so many actions, in all ways, and so many after a guard came; return how many states.

    Raises AssertionError with what was done, where somebody evades the guard.
    """
    row = [State(Tree(Node("main", "primary")))]
    visited: set[Any] = set()
    later: set[Any] = set()
    for remaining in range(depth, -1, -1):
        watched = [state.guarded() for state in row if state.guard is None]
        for state in watched:
            assert not state.evading(), state.done
        if remaining == depth:
            row = [*row, *watched]  # from the beginning, as far as it goes
        else:
            for _ in range(min(after, remaining)):
                watched = _next(watched, later)
        row = _next(row, visited) if remaining else []
    return len(visited) + len(later)


def _next(row: list[State], visited: set[Any]) -> list[State]:
    pairs: list[State] = []
    for state in row:
        for new in steps(state):
            assert not new.evading(), new.done
            if (key := new.key()) not in visited:
                visited.add(key)
                pairs.append(new)
    return pairs


@pytest.mark.req("S4-28", "S4-29", "S4-38", "S4-39")
def test_no_three_actions_evade_a_guard() -> None:
    assert search(3, after=1) > 500


@pytest.mark.full
def test_no_four_actions_evade_a_guard() -> None:
    assert search(4, after=2) > 5_000
