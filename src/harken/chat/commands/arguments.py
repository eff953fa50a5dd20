"""Parse the arguments of a structural action from a line that the user typed.

    /task Ann You are Ann, who knows tea. prompt="Which is best?" tools=read,search

Positional arguments are in the order of the form; the last of them takes the remaining text. Named
arguments may be anywhere; quotes group words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.world.result import InvalidArguments
from harken.world.tool import Tool

_QUOTED_PATTERN = r"""
    "(?:[^"\\]|\\.)*" | '[^']*'(?=\s|$)
"""
_WORD_PATTERN = re.compile(rf"\s*( {_QUOTED_PATTERN} | \S+ )", re.VERBOSE)


class ActionForm(msgspec.Struct, frozen=True):
    """The syntax of an action as a slash command."""

    tool: Tool
    """The action as a tool of models."""
    bare: Sequence[str]
    """The positional arguments, in order."""

    @classmethod
    def of(cls, tool: Tool) -> ActionForm:
        """Return the form of an action.

        Required arguments and the first text after them are positional.

        >>> from harken.agents.action_schemas import ACTIONS
        >>> ActionForm.of(ACTIONS["task"]).bare, ActionForm.of(ACTIONS["discuss"]).bare
        (['name', 'instructions'], ['prompt'])
        """
        needed = list(tool.parameters.get("required", ()))
        texts = [name for name in _properties(tool) if _is_text(tool, name) and name not in needed]
        return cls(tool, [*needed, *texts[:1]])

    @property
    def usage(self) -> str:
        """The syntax of the arguments, for help texts.

        >>> from harken.agents.action_schemas import ACTIONS
        >>> ActionForm.of(ACTIONS["hook"]).usage
        'NAME [INSTRUCTIONS] [points=..] [tools=..] [model=..]'
        """
        needed = self.tool.parameters.get("required", ())
        bare = [name.upper() if name in needed else f"[{name.upper()}]" for name in self.bare]
        options = [f"[{name}=..]" for name in _properties(self.tool) if self._takes_by_name(name)]
        return " ".join([*bare, *options])

    def _takes_by_name(self, name: str) -> bool:
        return name not in self.bare and name not in ("system_prompt", "user_prompt")

    def arguments(self, typed: str) -> Mapping[str, Any]:
        """Return the typed arguments, validated. Raises InvalidArguments."""
        return self.validate(*split_named_arguments(self.names, typed))

    @property
    def names(self) -> Sequence[str]:
        """The arguments that can be passed by name."""
        return [*_properties(self.tool)]

    def validate(self, by_name: dict[str, str], positional: str) -> Mapping[str, Any]:
        """Return the named and positional arguments, validated. Raises InvalidArguments."""
        bare = [name for name in self.bare if name not in by_name]
        words = split_positional(positional, len(bare))
        if positional.strip() and not bare:
            raise InvalidArguments(f"too many arguments; usage: {self.usage or 'none'}")
        by_name = {**by_name, **dict(zip(bare, words, strict=False))}
        missing = [name for name in self.tool.parameters.get("required", ()) if name not in by_name]
        if missing:
            raise InvalidArguments(f"{' and '.join(missing)} missing; usage: {self.usage}")
        arguments: Mapping[str, Any] = self.tool.check(
            {name: self._value(name, text) for name, text in by_name.items()}
        )
        return arguments

    def _value(self, name: str, text: str) -> Any:
        """Return a typed text as the type of the parameter. It is validated later."""
        kinds = _json_types(self.tool, name)
        if "array" in kinds:
            return [item.strip() for item in text.split(",") if item.strip()]
        if "boolean" in kinds and text.lower() in ("true", "false", "yes", "no"):
            return text.lower() in ("true", "yes")
        if "integer" in kinds and text.isascii() and text.isdecimal():
            return int(text)
        return text


def split_named_arguments(names: Sequence[str], typed: str) -> tuple[dict[str, str], str]:
    """Extract the arguments typed as `name=value`. Return them and the remaining text.

    >>> split_named_arguments(["tools"], 'Ann tools="a, b" is it')
    ({'tools': 'a, b'}, 'Ann is it')
    >>> split_named_arguments(["prompt"], "Ann prompt='Is it?' don't prompt='s")
    ({'prompt': "'s"}, "Ann don't ")
    """
    if not names:
        return {}, typed
    any_name = "|".join(map(re.escape, names))
    pattern = re.compile(
        rf"(?:^|(?<=\s)) ({any_name}) = ( {_QUOTED_PATTERN} | \S* ) (?:\s+|$)", re.VERBOSE
    )
    return {match[1]: _unquote_value(match[2]) for match in pattern.finditer(typed)}, pattern.sub(
        "", typed
    )


def split_positional(typed: str, limit: int) -> list[str]:
    """Return at most `limit` words; the last one is the remaining line.

    >>> split_positional('"Ann B" is it not', 2), split_positional("Ann", 2)
    (['Ann B', 'is it not'], ['Ann'])
    >>> split_positional("'Ann B' 'is it not'", 2), split_positional("Ann's it", 2)
    (['Ann B', "'is it not'"], ["Ann's", 'it'])
    """
    words: list[str] = []
    remaining = typed
    while len(words) < limit - 1 and (word := _WORD_PATTERN.match(remaining)) is not None:
        words.append(_unquote_value(word[1]))
        remaining = remaining[word.end() :]
    if remaining.strip() and limit:
        words.append(_unquote(remaining.strip()))
    return words


def _unquote_value(word: str) -> str:
    """Return a word without the single or double quotes around it."""
    is_single = len(word) > 1 and word[0] == word[-1] == "'"
    return word[1:-1] if is_single else _unquote(word)


def _unquote(word: str) -> str:
    r"""Return a word without the quotes around it.

    >>> _unquote('"say \\"tea\\""'), _unquote("don't")
    ('say "tea"', "don't")
    """
    if len(word) > 1 and word[0] == word[-1] == '"' and '"' not in re.sub(r"\\.", "", word[1:-1]):
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word


def _properties(tool: Tool) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    return properties


def _json_types(tool: Tool, name: str) -> set[str]:
    """Return the JSON types that an argument may have."""
    schema = _properties(tool).get(name, {})
    return {str(variant.get("type")) for variant in [schema, *schema.get("anyOf", ())]}


def _is_text(tool: Tool, name: str) -> bool:
    return "string" in _json_types(tool, name)
