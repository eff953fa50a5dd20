"""The tree of agents as the requirements have it: plain nodes and lists, nothing of Harken.

Source: S4-08 to S4-20, S4-29 to S4-39, S4-48 to S4-50, docs/design/007-hooks-and-agency.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any


class Wrong(Exception):
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
        watching = [one for one in self.hooks if one.watches and (own or not one.own)]
        watching.sort(key=lambda one: one.own)
        wanted = [one for one in watching if one.original not in there]
        return [one.copied() for one in wanted]

    def copied(self) -> Node:
        bare = self.own or self.bare
        made = Node(self.name, "hook", None, True, self.is_code, own=self.own, bare=bare)
        made.first = self.original
        return made

    def get(self, copies: Sequence[Node], *other: str) -> Iterator[None]:
        """Be watched by copies, one after the other; nobody there, nor others, have their names."""
        for copy in copies:
            copy.name = _other(copy.name, {*other, *(one.name for one in self.hooks)})
            self.add(copy, "hook")
            yield

    def add(self, one: Node, place: str) -> None:
        one.place, one.above = place, self
        (self.hooks if place == "hook" else self.subs).append(one)

    def shape(self) -> Any:
        below = [one.shape() for one in self.subs], [one.shape() for one in self.hooks]
        talk = [one.name for one in self.speakers], [one.name for one in self.listeners]
        return (self.name, self.place, *below, *talk)

    def everybody(self) -> list[Node]:
        found = [self]
        for one in found:
            found += [*one.hooks, *one.subs]
        return found


@dataclass
class Tree:
    """All agents, and who is primary."""

    primary: Node
    files: dict[str, Node] = field(default_factory=dict)
    trail: list[Any] = field(default_factory=list)
    """Every shape since the trail was cleared, also those in the middle of an action."""

    def note(self) -> None:
        self.trail.append(self.primary.shape())

    def do(self, who: Node, action: str, arguments: dict[str, Any]) -> None:
        if who.place == "gone" or (who.bare and action not in ("quit", "meta")):
            raise Wrong
        getattr(self, action)(who, **arguments)
        self.note()

    def task(self, who: Node, name: str, **_: Any) -> None:
        _free(who.subs, name)
        child = Node(name)
        self._bear(who, child, who.copies(), who)

    def clone(self, who: Node, name: str, into: str | None = None, as_name: str = "") -> None:
        original, above = who.sub(name), who if into is None else who.sub(into)
        _free(above.subs, as_name or name)
        copy = Node(as_name or original.name, bare=original.bare or above.bare)
        copies = above.copies()
        there = [one.original for one in copies]
        copies += original.copies(there, own=False)
        self._bear(above, copy, copies, who)

    def dump(self, who: Node, path: str, name: str | None = None) -> None:
        self.files[path] = _dumped(who if name is None else who.sub(name))

    def restore(self, who: Node, path: str, name: str | None = None) -> None:
        if path not in self.files:
            raise Wrong
        copy = _copy(self.files[path], who.hooks)
        copy.name = name or copy.name
        _free(who.subs, copy.name)
        self._bear(who, copy, [], who)

    def _bear(self, above: Node, child: Node, hooks: Sequence[Node], who: Node) -> None:
        for _ in child.get(hooks):
            pass
        for one in child.everybody():
            one.concerned = who.concerned
        above.add(child, "subagent")
        above.speakers, above.listeners = [child], []

    def discuss(
        self, who: Node, speakers: Any = None, listeners: Any = None, prompt: str = ""
    ) -> None:
        talk, hear = self._participants(who, speakers, listeners)
        if not talk:
            raise Wrong
        if speakers is not None or listeners is not None:
            who.speakers, who.listeners = talk, hear

    def introduce(self, who: Node, speakers: Any = None, listeners: Any = None) -> None:
        talk, hear = self._participants(who, speakers, listeners)
        if not talk + hear:
            raise Wrong
        who.speakers, who.listeners = talk, hear

    def _participants(self, who: Node, speakers: Any, listeners: Any) -> tuple[Any, Any]:
        if speakers is not None:
            talk = [who.sub(name) for name in dict.fromkeys(speakers)]
            hear = [who.sub(name) for name in dict.fromkeys(listeners or ())]
            return talk, [one for one in hear if one not in talk]
        talk = who.speakers or who.subs[-1:]
        if listeners is not None:
            hear = [who.sub(name) for name in dict.fromkeys(listeners)]
            return [one for one in talk if one not in hear], hear
        return talk, [one for one in who.listeners if one not in talk]

    def terminate(self, who: Node, name: str) -> None:
        _leave(who.sub(name))

    def hook(self, who: Node, name: str, tools: Sequence[str] | None = None) -> None:
        watched = who.above if who.place == "hook" else who
        assert watched is not None
        _free(watched.hooks, name)
        made = Node(name, "hook", watches=True, own=watched is who or who.own or who.moved)
        made.concerned, made.bare = who.concerned, tools == []
        if made.own and made.acts:  # it may act, so it is guarded as who made it is
            for copy in watched.copies(own=False):
                made.add(copy, "hook")
        watched.add(made, "hook")

    def guard(self, who: Node, name: str) -> Node:
        """The user puts a hook of code there."""
        made = Node(name, watches=True, is_code=True)
        who.add(made, "hook")
        self._reach(made, who)
        self.note()
        return made

    def _reach(self, hook: Node, watched: Node) -> None:
        own = [one for one in watched.hooks if one.own and one.acts]
        for one in [*watched.subs, *own]:
            if hook.original not in [other.original for other in one.hooks]:
                for _ in one.get([hook.copied()]):
                    self._reach(one.hooks[-1], one)

    def quit(self, who: Node) -> None:
        if who.place != "hook":
            raise Wrong
        _leave(who)
        who.place = "gone"

    def meta(self, who: Node) -> None:
        if who.place != "hook" or who.above is None:
            raise Wrong
        self._check(who, who.above, who.above, "subagent")
        there = [one.original for one in who.hooks]
        for _ in who.get(who.above.copies(there, own=False)) if who.own else ():
            self.note()
        self._swap(who, who.above, "subagent")

    def endo(self, who: Node, subagent: str, prompt: str = "", points: Any = None) -> None:
        child = who.sub(subagent)
        self._check(child, who, who, "hook")
        self._under(who, child, silent=False)

    def _under(self, who: Node, child: Node, *, silent: bool) -> None:
        there = [one.original for one in child.hooks]
        for _ in child.get(who.copies(there), who.name):
            self.note()
        self._swap(child, who, "hook")
        who.silent = (who.silent or not who.watches) if silent else False

    def talk_with(self, who: Node, name: str) -> None:
        way = [who]
        for step in name.split("/"):
            way.append(way[-1].sub(step))
            self._check(way[-1], way[-2], who, "hook")
        for at, one in pairwise(way):
            self._under(at, one, silent=True)
            self.note()

    def _check(self, taker: Node, before: Node, first: Node, now: str) -> None:
        if first.above is not None:
            row = first.above.hooks if first.place == "hook" else first.above.subs
            _free([one for one in row if one not in (first, taker)], taker.name)
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
                row[:] = [taker if one is before else one for one in row]
        taker.add(before, now)


def _rows(one: Node) -> tuple[list[Node], ...]:
    return one.subs, one.hooks, one.speakers, one.listeners


def _leave(one: Node) -> None:
    for row in _rows(one.above) if one.above is not None else ():
        row[:] = [other for other in row if other is not one]


def _named(row: Sequence[Node], name: str) -> Node:
    for one in row:
        if one.name == name:
            return one
    raise Wrong


def _free(row: Sequence[Node], name: str) -> None:
    if name in {one.name for one in row}:
        raise Wrong


def _other(name: str, taken: set[str]) -> str:
    """A name that nobody has: the same, or with a number."""
    names = [name, *(f"{name} ({number})" for number in range(2, 99))]
    return next(one for one in names if one not in taken)


def _like(one: Node) -> Node:
    """The same agent, alone, as another one."""
    return replace(
        one, above=None, first=None, concerned=False, subs=[], hooks=[], speakers=[], listeners=[]
    )


def _dumped(one: Node) -> Node:
    """An agent with all below it; its hooks as their copies begin."""
    new = _like(one)
    for hook in one.hooks:
        if hook.watches:
            new.add(_like(hook), "hook")
    subs = {id(sub): _dumped(sub) for sub in one.subs}
    for sub in subs.values():
        new.add(sub, "subagent")
    new.speakers = [subs[id(each)] for each in one.speakers]
    new.listeners = [subs[id(each)] for each in one.listeners]
    return new


def _copy(one: Node, watching: Sequence[Node], *, is_hook: bool = False) -> Node:
    """An agent with all at it, each watched by copies of some hooks, too; of code by one of each.

    There is one kind of code here.
    """
    new = _like(one)
    new.watches = one.watches and is_hook
    if not one.is_code and not (is_hook and one.bare):
        for hook in Node("", hooks=list(watching)).copies():
            new.add(hook, "hook")
    is_there = any(hook.is_code for hook in new.hooks)
    for hook in [hook for hook in one.hooks if not (hook.is_code and is_there)]:
        added = _copy(hook, watching, is_hook=True)
        added.name = _other(hook.name, {other.name for other in new.hooks})
        added.own = True
        new.add(added, "hook")
    subs = {id(sub): _copy(sub, watching) for sub in one.subs}
    for sub in subs.values():
        new.add(sub, "subagent")
    new.speakers = [subs[id(each)] for each in one.speakers]
    new.listeners = [subs[id(each)] for each in one.listeners]
    return new
