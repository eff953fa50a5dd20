"""Scripted models: answers from rules, for demos and tests without a network.

A rule has an agent, a pattern of the last message and an answer; the first matching rule answers.
The match depends on the request alone: the model keeps no state, so a resumed agent gets the same
answers as the live one.

Source: docs/how-to/script-a-model.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical, structs
from harken.core.arguments import check_arguments
from harken.core.events import Usage
from harken.core.messages import (
    ContentPart,
    FunctionCall,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    text_of,
)
from harken.core.stream import Chunk, Finish, iter_chunks
from harken.errors import ModelError, ScriptError
from harken.llm.base import ModelRequest

FunctionAnswer: TypeAlias = str | Message | Sequence[Chunk]

_ANY_PATTERN = re.compile("")
_MAX_LISTED = 8


class ScriptRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of a script."""

    agent: str = "*"
    """A name, or a glob pattern of names."""
    pattern: re.Pattern[str] = _ANY_PATTERN
    """Searched in the text of the last message."""
    turn: int | None = None
    """The number of the answer in the agent's context, from 1. None for any."""
    answer: str | None = None
    thinking: str | None = None
    calls: tuple[ToolCall, ...] = ()
    """A call with an empty id gets one that no open call of the context has."""
    stop_reason: str | None = None
    usage: Usage | None = None
    delay_s: float = 0.0
    """The duration of the answer, spread over its pieces."""
    error: str | None = None
    """The call fails with this text, after the other parts of the answer."""
    expand: bool = False
    """Whether `\\1` and `\\g<name>` in `answer` stand for groups of the match."""

    def is_for(self, agent: str) -> bool:
        """Whether the rule may answer an agent of this name."""
        return self.agent == agent or fnmatchcase(agent, self.agent)

    def message(self, match: re.Match[str], *, seen: int) -> Message:
        """Return the answer to a context of `seen` messages."""
        text = match.expand(self.answer) if self.expand and self.answer else self.answer
        calls = [
            call if call.id else structs.replace(call, id=f"call_{seen:03d}_{index}")
            for index, call in enumerate(self.calls)
        ]
        parts: list[ContentPart] = [ThinkingPart(self.thinking)] if self.thinking else []
        if parts and text:
            parts.append(TextPart(text))
        return Message("assistant", parts or text or None, calls or None)

    def __str__(self) -> str:
        conditions = [
            f"turn {self.turn}" if self.turn else "",
            f"pattern '{_truncate(self.pattern.pattern)}'" if self.pattern.pattern else "",
        ]
        return ", ".join(filter(None, conditions)) or "anything"


@check_arguments
class ScriptedModel:
    """A model that answers with the first matching rule."""

    def __init__(
        self, rules: Iterable[ScriptRule | Mapping[str, Any]], name: str = "scripted"
    ) -> None:
        """Create a model from rules of a script. Raises ScriptError for a malformed rule."""
        self.name = name
        self.rules: list[ScriptRule] = []
        for number, rule in enumerate(rules, 1):
            try:
                self.rules.append(rule if isinstance(rule, ScriptRule) else _parse_rule(rule))
            except _MalformedScript as error:
                raise ScriptError(f"{name}: rule {number}: {error}") from None

    @classmethod
    def load(cls, path: str | Path, *, name: str | None = None) -> ScriptedModel:
        """Read the rules of a YAML file. Raises ScriptError with file, line and cause."""
        return cls(_read_script(Path(path)), name or f"scripted:{path}")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream word by word.

        Raises ScriptError if no rule matches, ModelError if the rule has an error.

        `delay_s` is spread evenly: before each piece and before the end.
        """
        text = text_of(request.messages[-1].content) if request.messages else ""
        rule, match = self._find_rule(request, text)
        chunks = [*iter_chunks(rule.message(match, seen=len(request.messages)))]
        pause_s = rule.delay_s / (len(chunks) + 1)
        await asyncio.sleep(pause_s)  # A sleep of 0 allows the cancellation of endless agents.
        for chunk in chunks:
            yield chunk
            if pause_s:
                await asyncio.sleep(pause_s)
        if rule.error is not None:
            raise ModelError(rule.error)
        usual = "tool_use" if rule.calls else "end_turn"
        yield Finish(stop_reason=rule.stop_reason or usual, usage=rule.usage)

    def _find_rule(self, request: ModelRequest, text: str) -> tuple[ScriptRule, re.Match[str]]:
        turn = 0  # Counting is linear in the context, so it is done only if needed.
        for rule in self.rules:
            match = rule.pattern.search(text) if rule.is_for(request.agent) else None
            if match is None:
                continue
            if rule.turn is not None:
                turn = turn or _count_turn(request)
                if turn != rule.turn:
                    continue
            return rule, match
        raise ScriptError(self._format_missing(request, text))

    def _format_missing(self, request: ModelRequest, text: str) -> str:
        agent, numbered = request.agent, enumerate(self.rules, 1)
        agent_rules = [f"rule {number} ({rule})" for number, rule in numbered if rule.is_for(agent)]
        rules_text = f"for {agent} there is {_join_names(agent_rules)}"
        if not agent_rules:
            agents = [*dict.fromkeys(rule.agent for rule in self.rules)] or ["nobody"]
            rules_text = f"no rule is for {agent}, they are for {_join_names(agents)}"
        description = f"answer {_count_turn(request)} of {agent} to {_quote(text)}"
        return f"{self.name}: no rule for {description}; {rules_text}"


@check_arguments
class FunctionModel:
    """A model that is a Python function, for tests.

    A text or a message is streamed word by word and finished. A list of chunks is streamed
    unchanged: without a `Finish` in it, the answer counts as cut off.
    """

    def __init__(
        self,
        function: Callable[[ModelRequest], FunctionAnswer | Awaitable[FunctionAnswer]],
        name: str = "function",
    ) -> None:
        self.name = name
        self._function = function

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream the result of the function. Its exceptions propagate."""
        await asyncio.sleep(0)
        answer = self._function(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, str):
            answer = Message("assistant", answer)
        if isinstance(answer, Message):
            stop_reason = "tool_use" if answer.tool_calls else "end_turn"
            answer = [*iter_chunks(answer), Finish(stop_reason=stop_reason)]
        for chunk in answer:
            yield chunk


def _count_turn(request: ModelRequest) -> int:
    """Return the number of the requested answer of the agent, from 1."""
    return 1 + sum(message.role == "assistant" for message in request.messages)


def _quote(text: str) -> str:
    return repr(_truncate(text))


def _truncate(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_LISTED]) + (", ..." if len(names) > _MAX_LISTED else "")


class _MalformedScript(Exception):
    """An error in a script. `path` is its location, as keys and positions from 0."""

    def __init__(self, text: str, *path: object) -> None:
        super().__init__(text)
        self.path = path


@contextmanager
def _at_path(*path: object) -> Iterator[None]:
    try:
        yield
    except _MalformedScript as error:
        raise _MalformedScript(str(error), *path, *error.path) from None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


_TEXT_CHECK = (_is_text, "a string; put it in quotes")
_KEY_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "agent": _TEXT_CHECK,
    "pattern": _TEXT_CHECK,
    "turn": (lambda value: _is_count(value) and bool(value), "a whole number from 1"),
    "answer": _TEXT_CHECK,
    "calls": (lambda value: isinstance(value, list), "a list of calls: write `- TOOL: {...}`"),
    "thinking": _TEXT_CHECK,
    "stop_reason": _TEXT_CHECK,
    "usage": (lambda value: isinstance(value, Mapping), "a mapping: write {output_tokens: 2}"),
    "delay_s": (_is_seconds, "a number of seconds"),
    "error": _TEXT_CHECK,
    "expand": (lambda value: isinstance(value, bool), "true or false"),
}


def _parse_rule(raw: object) -> ScriptRule:
    """Parse a rule of a script. Raises _MalformedScript with a remedy."""
    if not isinstance(raw, Mapping):
        raise _MalformedScript(
            f"a rule is a mapping: write `- answer: ...`, not {_quote(str(raw))}"
        )
    for key, value in raw.items():
        if key not in _KEY_CHECKS:
            raise _MalformedScript(
                f"a rule has no key {key!r}; it has {', '.join(_KEY_CHECKS)}", key
            )
        fits, kind = _KEY_CHECKS[key]
        if not fits(value):
            raise _MalformedScript(f"{key} is {kind}, not {_quote(str(value))}", key)
    if not {"answer", "calls", "error"} & raw.keys():
        raise _MalformedScript("a rule needs an answer, calls or an error")
    parsed: dict[str, Any] = {
        "pattern": _parse_pattern(raw.get("pattern", "")),
        "calls": _parse_calls(raw.get("calls", [])),
        "usage": _parse_usage(raw["usage"]) if "usage" in raw else None,
    }
    rule = ScriptRule(**{**raw, **parsed})
    if rule.expand:
        _check_template(rule)
    return rule


def _parse_pattern(raw: str) -> re.Pattern[str]:
    try:
        return re.compile(raw)
    except re.error as error:
        text = f"pattern {raw!r} is not a valid regular expression: {error}"
        raise _MalformedScript(text, "pattern") from None


def _check_template(rule: ScriptRule) -> None:
    if not rule.pattern.pattern:
        raise _MalformedScript("expand needs a pattern, whose groups the answer names", "expand")
    try:
        rule.pattern.sub(rule.answer or "", "")  # This parses the template, also without a match.
    except (re.error, IndexError) as error:
        raise _MalformedScript(f"answer cannot be expanded: {error}", "answer") from None


def _parse_usage(raw: Mapping[Any, Any]) -> Usage:
    names = Usage.__struct_fields__
    for key, value in raw.items():
        if key not in names:
            raise _MalformedScript(
                f"usage has no key {key!r}; it has {', '.join(names)}", "usage", key
            )
        if not _is_count(value):
            raise _MalformedScript(
                f"{key} is a whole number, not {_quote(str(value))}", "usage", key
            )
    return Usage(**raw)


def _parse_calls(raw: list[Any]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for index, item in enumerate(raw):
        with _at_path("calls", index):
            call = _parse_call(item)
            if call.id and call.id in (earlier.id for earlier in calls):
                raise _MalformedScript(f"two calls have the id {call.id!r}")
            calls.append(call)
    return tuple(calls)


def _parse_call(raw: object) -> ToolCall:
    """Parse `{TOOL: ARGUMENTS}`, or `{tool: TOOL, id: ID, arguments: ARGUMENTS}`."""
    if not isinstance(raw, Mapping):
        raise _MalformedScript(
            f"a call is a mapping: write `- TOOL: {{...}}`, not {_quote(str(raw))}"
        )
    if isinstance(raw.get("tool"), str):
        for key in raw.keys() - {"tool", "id", "arguments"}:
            raise _MalformedScript(f"a call has no key {key!r}; it has tool, id, arguments", key)
        name, id_, arguments = raw["tool"], raw.get("id", ""), raw.get("arguments")
    elif len(raw) == 1:
        [(name, arguments)], id_ = raw.items(), ""
    else:
        keys = ", ".join(map(str, raw)) or "nothing"
        raise _MalformedScript(
            f"a call names one tool, not {keys}: indent arguments below their tool"
        )
    for text in (name, id_):
        if not isinstance(text, str):
            raise _MalformedScript(f"names and ids are texts: put {text!r} in quotes")
    return ToolCall(id_, FunctionCall(name, _parse_arguments(name, arguments)))


def _parse_arguments(tool: str, raw: object) -> str:
    """Return arguments as JSON text. A string stays unchanged, even if it is no JSON."""
    if isinstance(raw, str):
        return raw
    if raw is not None and not isinstance(raw, Mapping):
        raise _MalformedScript(f"arguments of {tool} are a mapping, not {_quote(str(raw))}")
    try:
        return canonical.to_json_line(raw or {}).decode()
    except TypeError as error:
        raise _MalformedScript(
            f"arguments of {tool} are not valid JSON ({error}): put names in quotes"
        ) from None


def _read_script(path: Path) -> list[ScriptRule]:
    """Read a script. The YAML nodes give the lines of errors."""
    import yaml  # noqa: PLC0415 - slow, and only for files

    top: Any = None
    try:
        loader = yaml.SafeLoader(path.read_bytes())
        top = loader.get_single_node()
        if top is not None:
            _check_duplicate_keys(top)
        return _parse_rules(loader.construct_document(top) if top is not None else None)
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error}); name a YAML file with rules"
        raise ScriptError(f"{path}: {reason}") from None
    except _MalformedScript as error:
        raise ScriptError(f"{path}, line {_find_node(top, error.path)[1]}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = "put a text with signs such as `: # , ?` in quotes"
        raise ScriptError(f"{path}, line {line}: not YAML: {error.problem}; {hint}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScriptError(f"{path}: not YAML: {_quote(str(error))}") from None


def _parse_rules(document: object) -> list[ScriptRule]:
    if not isinstance(document, Mapping) or not isinstance(document.get("rules"), list):
        raise _MalformedScript(
            "a script starts with `rules:`; write each rule below it, after `- `"
        )
    for key in document.keys() - {"rules"}:
        raise _MalformedScript(f"a script has no key {key!r}; it has rules", key)
    rules: list[ScriptRule] = []
    for index, rule in enumerate(document["rules"]):
        with _at_path("rules", index):
            rules.append(_parse_rule(rule))
    return rules


def _check_duplicate_keys(top: Any) -> None:
    """Refuse equal keys: YAML uses the last of them silently, but they are two merged rules."""
    _check_keys(top, "one list holds all rules")
    rules, _ = _find_node(top, ["rules"])
    for index, rule in enumerate(rules.value if rules.id == "sequence" else ()):
        with _at_path("rules", index):
            _check_keys(rule, "start each rule with `- `")


def _check_keys(node: Any, hint: str) -> None:
    keys = [key.value for key, _ in node.value] if node.id == "mapping" else []
    for key in keys:
        if keys.count(key) > 1:
            raise _MalformedScript(f"{key} occurs twice: {hint}")


def _find_node(top: Any, path: Sequence[object]) -> tuple[Any, int]:
    """Return the YAML node at a path, as far as the path exists, and its line.

    Lines count from 1; the line of a member is that of its key.
    """
    node, line = top, 0 if top is None else top.start_mark.line
    for step in path:
        if isinstance(step, int) and node.id == "sequence":
            node = node.value[step]
            line = node.start_mark.line
        elif node.id == "mapping":
            matches = [
                (value, key.start_mark.line) for key, value in node.value if key.value == step
            ]
            node, line = matches[0] if matches else (node, line)
    return node, line + 1
