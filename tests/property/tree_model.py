"""The tree of agents as the requirements have it: plain nodes and lists, nothing of Harken.

Source: S4-08 to S4-20, S4-29 to S4-39, S4-48 to S4-50, docs/design/007-hooks-and-agency.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any


class InvalidAction(Exception):
    """What an agent wanted cannot be: it gets an error, and nothing changes."""


@dataclass(eq=False)
class Node:
    """One agent."""

    name: str
    place: str = "subagent"
    above: Node | None = None
    watches: bool = False
    """Whether it was made to be a hook: then subagents of whom it watches get a copy of it."""
    is_code: bool = False
    silent: bool = False
    """Whether it is never asked where it stands as a hook."""
    own: bool = False
    """Whether whom it watches, or a file, made it: it guards nothing against that one."""
    moved: bool = False
    """Whether it was above whom it watches before: it guards nothing either, and is not its own."""
    first: Node | None = None
    """Of which hook it is a copy, in the end."""
    concerned: bool = False
    """Whether it was there when the guard came that must not be evaded, or comes from one."""
    bare: bool = False
    """Whether it may use nothing but what every hook has."""
    subs: list[Node] = field(default_factory=list)
    hooks: list[Node] = field(default_factory=list)
    speakers: list[Node] = field(default_factory=list)
    listeners: list[Node] = field(default_factory=list)

    def sub(self, name: str) -> Node:
        return _named(self.subs, name)

    @property
    def original(self) -> Node:
        return self.first or self

    @property
    def acts(self) -> bool:
        """Whether it can do more than judge."""
        return self.place != "hook" or not (self.bare or self.is_code)

    def copies(self, there: Sequence[Node] = (), *, own: bool = True) -> list[Node]:
        """The hooks that somebody new below it gets, who has hooks with these originals."""
        watching = [hook for hook in self.hooks if hook.watches and (own or not hook.own)]
        watching.sort(key=lambda hook: hook.own)
        hooks = [hook for hook in watching if hook.original not in there]
        return [hook.copied() for hook in hooks]

    def copied(self) -> Node:
        bare = self.own or self.bare
        copy = Node(self.name, "hook", None, True, self.is_code, own=self.own, bare=bare)
        copy.first = self.original
        return copy

    def get(self, copies: Sequence[Node], *names: str) -> Iterator[None]:
        """Be watched by copies, one after the other; nobody there, nor others, have their names."""
        for copy in copies:
            copy.name = _other(copy.name, {*names, *(hook.name for hook in self.hooks)})
            self.add(copy, "hook")
            yield

    def add(self, node: Node, place: str) -> None:
        node.place, node.above = place, self
        (self.hooks if place == "hook" else self.subs).append(node)

    def shape(self) -> Any:
        below = [node.shape() for node in self.subs], [node.shape() for node in self.hooks]
        talk = [node.name for node in self.speakers], [node.name for node in self.listeners]
        return (self.name, self.place, *below, *talk)

    def everybody(self) -> list[Node]:
        nodes = [self]
        for node in nodes:
            nodes += [*node.hooks, *node.subs]
        return nodes


@dataclass
class Tree:
    """All agents, and who is primary."""

    primary: Node
    files: dict[str, Node] = field(default_factory=dict)
    exports: set[str] = field(default_factory=set)
    """Paths of exported conversations."""
    trail: list[Any] = field(default_factory=list)
    """Every shape since the trail was cleared, also those in the middle of an action."""

    def note(self) -> None:
        self.trail.append(self.primary.shape())

    def do(self, node: Node, action: str, arguments: dict[str, Any]) -> None:
        if node.place == "gone" or (node.bare and action not in ("quit", "meta")):
            raise InvalidAction
        getattr(self, action)(node, **arguments)
        self.note()

    def task(self, node: Node, name: str, **_: Any) -> None:
        _free(node.subs, name)
        child = Node(name)
        self._bear(node, child, node.copies(), node)

    def clone(self, node: Node, name: str, into: str | None = None, as_name: str = "") -> None:
        original, above = node.sub(name), node if into is None else node.sub(into)
        _free(above.subs, as_name or name)
        copy = Node(as_name or original.name, bare=original.bare or above.bare)
        copies = above.copies()
        originals = [copy.original for copy in copies]
        copies += original.copies(originals, own=False)
        self._bear(above, copy, copies, node)

    def dump(self, node: Node, path: str, name: str | None = None) -> None:
        self.files[path] = _dumped(node if name is None else node.sub(name))

    def restore(self, node: Node, path: str, name: str | None = None) -> None:
        if path not in self.files:
            raise InvalidAction
        copy = _copy(self.files[path], node.hooks)
        copy.name = name or copy.name
        _free(node.subs, copy.name)
        self._bear(node, copy, [], node)

    def compact(self, node: Node) -> None:
        """The context of an agent has no part in the tree."""

    def export(self, node: Node, path: str) -> None:
        if path in self.exports:
            raise InvalidAction
        self.exports.add(path)

    def _bear(self, above: Node, child: Node, hooks: Sequence[Node], node: Node) -> None:
        for _ in child.get(hooks):
            pass
        for descendant in child.everybody():
            descendant.concerned = node.concerned
        above.add(child, "subagent")
        above.speakers, above.listeners = [child], []

    def discuss(
        self, node: Node, speakers: Any = None, listeners: Any = None, prompt: str = ""
    ) -> None:
        talk, hear = self._participants(node, speakers, listeners)
        if not talk:
            raise InvalidAction
        if speakers is not None or listeners is not None:
            node.speakers, node.listeners = talk, hear

    def introduce(self, node: Node, speakers: Any = None, listeners: Any = None) -> None:
        talk, hear = self._participants(node, speakers, listeners)
        if not talk + hear:
            raise InvalidAction
        node.speakers, node.listeners = talk, hear

    def _participants(self, node: Node, speakers: Any, listeners: Any) -> tuple[Any, Any]:
        if speakers is not None:
            talk = [node.sub(name) for name in dict.fromkeys(speakers)]
            hear = [node.sub(name) for name in dict.fromkeys(listeners or ())]
            return talk, [listener for listener in hear if listener not in talk]
        talk = node.speakers or node.subs[-1:]
        if listeners is not None:
            hear = [node.sub(name) for name in dict.fromkeys(listeners)]
            return [speaker for speaker in talk if speaker not in hear], hear
        return talk, [listener for listener in node.listeners if listener not in talk]

    def terminate(self, node: Node, name: str) -> None:
        _leave(node.sub(name))

    def hook(self, node: Node, name: str, tools: Sequence[str] | None = None) -> None:
        watched = node.above if node.place == "hook" else node
        assert watched is not None
        _free(watched.hooks, name)
        hook = Node(name, "hook", watches=True, own=watched is node or node.own or node.moved)
        hook.concerned, hook.bare = node.concerned, tools == []
        if hook.own and hook.acts:  # it may act, so it is guarded as who made it is
            for copy in watched.copies(own=False):
                hook.add(copy, "hook")
        watched.add(hook, "hook")

    def guard(self, node: Node, name: str) -> Node:
        """The user puts a hook of code there."""
        guard = Node(name, watches=True, is_code=True)
        node.add(guard, "hook")
        self._reach(guard, node)
        self.note()
        return guard

    def _reach(self, hook: Node, watched: Node) -> None:
        own_hooks = [hook_ for hook_ in watched.hooks if hook_.own and hook_.acts]
        for child in [*watched.subs, *own_hooks]:
            if hook.original not in [present.original for present in child.hooks]:
                for _ in child.get([hook.copied()]):
                    self._reach(child.hooks[-1], child)

    def quit(self, node: Node) -> None:
        if node.place != "hook":
            raise InvalidAction
        _leave(node)
        node.place = "gone"

    def meta(self, node: Node) -> None:
        if node.place != "hook" or node.above is None:
            raise InvalidAction
        self._check(node, node.above, node.above, "subagent")
        originals = [hook.original for hook in node.hooks]
        for _ in node.get(node.above.copies(originals, own=False)) if node.own else ():
            self.note()
        self._swap(node, node.above, "subagent")

    def endo(self, node: Node, subagent: str, prompt: str = "", points: Any = None) -> None:
        child = node.sub(subagent)
        self._check(child, node, node, "hook")
        self._under(node, child, silent=False)

    def _under(self, node: Node, child: Node, *, silent: bool) -> None:
        originals = [hook.original for hook in child.hooks]
        for _ in child.get(node.copies(originals), node.name):
            self.note()
        self._swap(child, node, "hook")
        node.silent = (node.silent or not node.watches) if silent else False

    def talk_with(self, node: Node, name: str) -> None:
        way = [node]
        for step in name.split("/"):
            way.append(way[-1].sub(step))
            self._check(way[-1], way[-2], node, "hook")
        for position, next_node in pairwise(way):
            self._under(position, next_node, silent=True)
            self.note()

    def _check(self, taker: Node, before: Node, first: Node, now: str) -> None:
        if first.above is not None:
            row = first.above.hooks if first.place == "hook" else first.above.subs
            _free([member for member in row if member not in (first, taker)], taker.name)
        row = taker.hooks if now == "hook" else taker.subs
        _free(row, before.name)

    def _swap(self, taker: Node, before: Node, now: str) -> None:
        _leave(taker)
        taker.place, taker.above = before.place, before.above
        if before.place == "hook":
            taker.silent, taker.own = before.silent, taker.own or before.own
            taker.moved = not taker.own and before.moved
        if now == "hook" and not before.watches:
            before.moved = True
        if before.above is None:
            self.primary = taker
        else:
            for row in _rows(before.above):
                row[:] = [taker if member is before else member for member in row]
        taker.add(before, now)


def _rows(node: Node) -> tuple[list[Node], ...]:
    return node.subs, node.hooks, node.speakers, node.listeners


def _leave(node: Node) -> None:
    for row in _rows(node.above) if node.above is not None else ():
        row[:] = [member for member in row if member is not node]


def _named(row: Sequence[Node], name: str) -> Node:
    for node in row:
        if node.name == name:
            return node
    raise InvalidAction


def _free(row: Sequence[Node], name: str) -> None:
    if name in {node.name for node in row}:
        raise InvalidAction


def _other(name: str, used_names: set[str]) -> str:
    """A name that nobody has: the same, or with a number."""
    names = [name, *(f"{name} ({number})" for number in range(2, 99))]
    return next(candidate for candidate in names if candidate not in used_names)


def _like(node: Node) -> Node:
    """The same agent, alone, as another one."""
    return replace(
        node, above=None, first=None, concerned=False, subs=[], hooks=[], speakers=[], listeners=[]
    )


def _dumped(node: Node) -> Node:
    """An agent with all below it; its hooks as their copies begin."""
    new = _like(node)
    for hook in node.hooks:
        if hook.watches:
            new.add(_like(hook), "hook")
    subs = {id(sub): _dumped(sub) for sub in node.subs}
    for sub in subs.values():
        new.add(sub, "subagent")
    new.speakers = [subs[id(each)] for each in node.speakers]
    new.listeners = [subs[id(each)] for each in node.listeners]
    return new


def _kind(hook: Node) -> tuple[bool, bool]:
    return hook.is_code, hook.silent


def _copy(node: Node, watching: Sequence[Node], *, is_hook: bool = False) -> Node:
    """An agent with all at it, each watched by copies of some hooks, too, but once by each.

    There is one kind of code here, and all hooks with a model have the same instructions.
    """
    new = _like(node)
    new.watches = node.watches and is_hook
    kinds: set[tuple[bool, bool]] = set()
    if not node.is_code and not (is_hook and node.bare):
        for hook in Node("", hooks=list(watching)).copies():
            new.add(hook, "hook")
        kinds = {_kind(hook) for hook in watching if hook.watches}
    for hook in [hook for hook in node.hooks if _kind(hook) not in kinds]:
        added = _copy(hook, watching, is_hook=True)
        added.name = _other(hook.name, {present.name for present in new.hooks})
        added.own = True
        new.add(added, "hook")
    subs = {id(sub): _copy(sub, watching) for sub in node.subs}
    for sub in subs.values():
        new.add(sub, "subagent")
    new.speakers = [subs[id(each)] for each in node.speakers]
    new.listeners = [subs[id(each)] for each in node.listeners]
    return new
