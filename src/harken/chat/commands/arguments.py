"""The user's form of a structural action: what is typed after `/task` becomes its arguments.

    /task Ann You are Ann, who knows tea. prompt="Which is best?" tools=read,search

Arguments that have no name stand in the order of the form; the last of them is the rest of the
line. Those with a name may stand anywhere; quotes keep words together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harken.world.result import InvalidArguments
from harken.world.tool import Tool

_QUOTED = r"""
    "(?:[^"\\]|\\.)*" | '[^']*'(?=\s|$)
"""
_WORD = re.compile(rf"\s*( {_QUOTED} | \S+ )", re.VERBOSE)


@dataclass(frozen=True, slots=True)
class ActionForm:
    """How an action is typed."""

    tool: Tool
    """The action as a model is shown it."""
    bare: Sequence[str]
    """The arguments that need no name, in order."""

    @classmethod
    def of(cls, tool: Tool) -> ActionForm:
        """Return the form of an action: what it needs has no name, nor has the first text after.

        >>> from harken.agents.action_schemas import ACTIONS
        >>> ActionForm.of(ACTIONS["task"]).bare, ActionForm.of(ACTIONS["discuss"]).bare
        (['name', 'instructions'], ['prompt'])
        """
        needed = list(tool.parameters.get("required", ()))
        texts = [name for name in _properties(tool) if _is_text(tool, name) and name not in needed]
        return cls(tool, [*needed, *texts[:1]])

    @property
    def usage(self) -> str:
        """What can be typed after the command.

        >>> from harken.agents.action_schemas import ACTIONS
        >>> ActionForm.of(ACTIONS["hook"]).usage
        'NAME [INSTRUCTIONS] [points=..] [tools=..]'
        """
        needed = self.tool.parameters.get("required", ())
        bare = [name.upper() if name in needed else f"[{name.upper()}]" for name in self.bare]
        named = [f"[{name}=..]" for name in _properties(self.tool) if self._takes_by_name(name)]
        return " ".join([*bare, *named])

    def _takes_by_name(self, name: str) -> bool:
        return name not in self.bare and name not in ("system_prompt", "user_prompt")

    def arguments(self, typed: str) -> Mapping[str, Any]:
        """Return the arguments that were typed, checked. Raises InvalidArguments."""
        return self.checked(*named_and_rest(self.names, typed))

    @property
    def names(self) -> Sequence[str]:
        """What can be said by name."""
        return [*_properties(self.tool)]

    def checked(self, said: dict[str, str], rest: str) -> Mapping[str, Any]:
        """Return what was said by name, and without one, checked. Raises InvalidArguments."""
        bare = [name for name in self.bare if name not in said]
        words = words_in(rest, len(bare))
        if rest.strip() and not bare:
            raise InvalidArguments(f"it takes no more than: {self.usage or 'nothing'}")
        said = {**said, **dict(zip(bare, words, strict=False))}
        missing = [one for one in self.tool.parameters.get("required", ()) if one not in said]
        if missing:
            raise InvalidArguments(f"{' and '.join(missing)} missing; what it takes: {self.usage}")
        checked: Mapping[str, Any] = self.tool.check(
            {name: self._value(name, text) for name, text in said.items()}
        )
        return checked

    def _value(self, name: str, text: str) -> Any:
        """Return what was typed as the type that the action takes; it is checked later."""
        kinds = _kinds(self.tool, name)
        if "array" in kinds:
            return [one.strip() for one in text.split(",") if one.strip()]
        if "boolean" in kinds and text.lower() in ("true", "false", "yes", "no"):
            return text.lower() in ("true", "yes")
        if "integer" in kinds and text.isascii() and text.isdecimal():
            return int(text)
        return text


def named_and_rest(names: Sequence[str], typed: str) -> tuple[dict[str, str], str]:
    """Take out what was typed as `name=value`; return it, and the rest.

    >>> named_and_rest(["tools"], 'Ann tools="a, b" is it')
    ({'tools': 'a, b'}, 'Ann is it')
    >>> named_and_rest(["prompt"], "Ann prompt='Is it?' don't prompt='s")
    ({'prompt': "'s"}, "Ann don't ")
    """
    if not names:
        return {}, typed
    any_name = "|".join(map(re.escape, names))
    named = re.compile(rf"(?:^|(?<=\s)) ({any_name}) = ( {_QUOTED} | \S* ) (?:\s+|$)", re.VERBOSE)
    return {one[1]: _word(one[2]) for one in named.finditer(typed)}, named.sub("", typed)


def words_in(typed: str, most: int) -> list[str]:
    """Return at most so many words; the last one is the rest of the line.

    >>> words_in('"Ann B" is it not', 2), words_in("Ann", 2)
    (['Ann B', 'is it not'], ['Ann'])
    >>> words_in("'Ann B' 'is it not'", 2), words_in("Ann's it", 2)
    (['Ann B', "'is it not'"], ["Ann's", 'it'])
    """
    words: list[str] = []
    rest = typed
    while len(words) < most - 1 and (word := _WORD.match(rest)) is not None:
        words.append(_word(word[1]))
        rest = rest[word.end() :]
    if rest.strip() and most:
        words.append(_plain(rest.strip()))
    return words


def _word(word: str) -> str:
    """Return a word without the quotes around it, of whichever kind."""
    is_single = len(word) > 1 and word[0] == word[-1] == "'"
    return word[1:-1] if is_single else _plain(word)


def _plain(word: str) -> str:
    r"""Return a word without the quotes around it.

    >>> _plain('"say \\"tea\\""'), _plain("don't")
    ('say "tea"', "don't")
    """
    if len(word) > 1 and word[0] == word[-1] == '"' and '"' not in re.sub(r"\\.", "", word[1:-1]):
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word


def _properties(tool: Tool) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tool.parameters.get("properties", {})
    return found


def _kinds(tool: Tool, name: str) -> set[str]:
    """Return the JSON types that an argument may have."""
    said = _properties(tool).get(name, {})
    return {str(one.get("type")) for one in [said, *said.get("anyOf", ())]}


def _is_text(tool: Tool, name: str) -> bool:
    return "string" in _kinds(tool, name)
