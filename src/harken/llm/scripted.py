"""Scripted models: answers from rules, for demos and tests that need no network.

A rule says for which agent it is, what the last message must look like, and what the answer is;
the first that fits answers. Which one fits depends on the request alone: the model remembers
nothing, so a resumed agent is answered as the live one would have been.

Source: docs/how-to/scripted-models.md.
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
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical
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
from harken.core.stream import Chunk, Finish, chunks_of
from harken.errors import ModelError, ScriptError
from harken.llm.base import ModelRequest

Answer: TypeAlias = str | Message | Sequence[Chunk]

_ANY = re.compile("")
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRule:
    """One rule of a script."""

    agent: str = "*"
    """A name, or a glob over names."""
    pattern: re.Pattern[str] = _ANY
    """Searched in the text of the last message."""
    turn: int | None = None
    """Which answer in the agent's context it is for, from 1; None: any."""
    answer: str | None = None
    thinking: str | None = None
    calls: tuple[ToolCall, ...] = ()
    """Those with an empty id get one that no open call of the context has."""
    stop_reason: str | None = None
    usage: Usage | None = None
    delay_s: float = 0.0
    """How long the answer takes, spread over its pieces."""
    error: str | None = None
    """The call fails with this text, after whatever else the rule says."""
    expand: bool = False
    """Whether `\\1` and `\\g<name>` in `answer` stand for groups of the match."""

    def is_for(self, agent: str) -> bool:
        """Whether an agent of this name may be answered by this rule."""
        return self.agent == agent or fnmatchcase(agent, self.agent)

    def message(self, match: re.Match[str], *, seen: int) -> Message:
        """Return the answer to a context of `seen` messages."""
        text = match.expand(self.answer) if self.expand and self.answer else self.answer
        calls = [
            call if call.id else msgspec.structs.replace(call, id=f"call_{seen:03d}_{index}")
            for index, call in enumerate(self.calls)
        ]
        parts: list[ContentPart] = [ThinkingPart(self.thinking)] if self.thinking else []
        if parts and text:
            parts.append(TextPart(text))
        return Message("assistant", parts or text or None, calls or None)

    def __str__(self) -> str:
        said = [
            f"turn {self.turn}" if self.turn else "",
            f"pattern '{_cut(self.pattern.pattern)}'" if self.pattern.pattern else "",
        ]
        return ", ".join(filter(None, said)) or "anything"


@check_arguments
class ScriptedModel:
    """A model that answers by the first rule that fits."""

    def __init__(
        self, rules: Iterable[ScriptRule | Mapping[str, Any]], name: str = "scripted"
    ) -> None:
        """Take rules as a script has them. Raises ScriptError for one that is malformed."""
        self.name = name
        self.rules: list[ScriptRule] = []
        for number, rule in enumerate(rules, 1):
            try:
                self.rules.append(rule if isinstance(rule, ScriptRule) else _rule(rule))
            except _Malformed as error:
                raise ScriptError(f"{name}: rule {number}: {error}") from None

    @classmethod
    def load(cls, path: str | Path, *, name: str | None = None) -> ScriptedModel:
        """Read the rules of a YAML file. Raises ScriptError: file, line, what is wrong."""
        return cls(_read(Path(path)), name or f"scripted:{path}")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer word by word. Raises ScriptError where no rule fits, ModelError where one says so.

        `delay_s` is spread evenly: before each piece and before the end.
        """
        text = text_of(request.messages[-1].content) if request.messages else ""
        rule, match = self._fitting(request, text)
        chunks = [*chunks_of(rule.message(match, seen=len(request.messages)))]
        pause_s = rule.delay_s / (len(chunks) + 1)
        await asyncio.sleep(pause_s)  # also for 0: agents that talk for ever can be cancelled
        for chunk in chunks:
            yield chunk
            if pause_s:
                await asyncio.sleep(pause_s)
        if rule.error is not None:
            raise ModelError(rule.error)
        usual = "tool_use" if rule.calls else "end_turn"
        yield Finish(stop_reason=rule.stop_reason or usual, usage=rule.usage)

    def _fitting(self, request: ModelRequest, text: str) -> tuple[ScriptRule, re.Match[str]]:
        turn = 0  # counted where a rule asks for it: this alone grows with the context
        for rule in self.rules:
            match = rule.pattern.search(text) if rule.is_for(request.agent) else None
            if match is None:
                continue
            if rule.turn is not None:
                turn = turn or _turn(request)
                if turn != rule.turn:
                    continue
            return rule, match
        raise ScriptError(self._missing(request, text))

    def _missing(self, request: ModelRequest, text: str) -> str:
        agent, numbered = request.agent, enumerate(self.rules, 1)
        own = [f"rule {number} ({rule})" for number, rule in numbered if rule.is_for(agent)]
        there = f"for {agent} there is {_listed(own)}"
        if not own:
            others = [*dict.fromkeys(rule.agent for rule in self.rules)] or ["nobody"]
            there = f"no rule is for {agent}, they are for {_listed(others)}"
        asked = f"answer {_turn(request)} of {agent} to {_short(text)}"
        return f"{self.name}: no rule for {asked}; {there}"


@check_arguments
class FunctionModel:
    """A model that is a Python function, for tests.

    A text or a message is streamed word by word and finished. A list of chunks is streamed as it
    is: without a `Finish` in it, the answer is one that was cut off.
    """

    def __init__(
        self, function: Callable[[ModelRequest], Answer | Awaitable[Answer]], name: str = "function"
    ) -> None:
        self.name = name
        self._function = function

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer with what the function returns; what it raises is raised."""
        await asyncio.sleep(0)
        answer = self._function(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, str):
            answer = Message("assistant", answer)
        if isinstance(answer, Message):
            stop_reason = "tool_use" if answer.tool_calls else "end_turn"
            answer = [*chunks_of(answer), Finish(stop_reason=stop_reason)]
        for chunk in answer:
            yield chunk


def _turn(request: ModelRequest) -> int:
    """Return which answer of its agent is asked for, from 1."""
    return 1 + sum(message.role == "assistant" for message in request.messages)


def _short(text: str) -> str:
    return repr(_cut(text))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _listed(things: Sequence[str]) -> str:
    return ", ".join(things[:_SHOWN]) + (", ..." if len(things) > _SHOWN else "")


class _Malformed(Exception):
    """What is wrong with a script; `path` leads to it, by keys and by positions from 0."""

    def __init__(self, text: str, *path: object) -> None:
        super().__init__(text)
        self.path = path


@contextmanager
def _within(*path: object) -> Iterator[None]:
    try:
        yield
    except _Malformed as error:
        raise _Malformed(str(error), *path, *error.path) from None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


_TEXT = (_is_text, "a text: put it in quotes")
_KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    "agent": _TEXT,
    "pattern": _TEXT,
    "turn": (lambda value: _is_count(value) and bool(value), "a whole number from 1"),
    "answer": _TEXT,
    "calls": (lambda value: isinstance(value, list), "a list of calls: write `- TOOL: {...}`"),
    "thinking": _TEXT,
    "stop_reason": _TEXT,
    "usage": (lambda value: isinstance(value, Mapping), "a mapping: write {output_tokens: 2}"),
    "delay_s": (_is_seconds, "a number of seconds"),
    "error": _TEXT,
    "expand": (lambda value: isinstance(value, bool), "true or false"),
}


def _rule(written: object) -> ScriptRule:
    """Check a rule as a person wrote it. Raises _Malformed saying what to change."""
    if not isinstance(written, Mapping):
        raise _Malformed(f"a rule is a mapping: write `- answer: ...`, not {_short(str(written))}")
    for key, value in written.items():
        if key not in _KEYS:
            raise _Malformed(f"a rule has no key {key!r}; it has {', '.join(_KEYS)}", key)
        fits, kind = _KEYS[key]
        if not fits(value):
            raise _Malformed(f"{key} is {kind}, not {_short(str(value))}", key)
    if not {"answer", "calls", "error"} & written.keys():
        raise _Malformed("a rule needs an answer, calls or an error")
    read: dict[str, Any] = {
        "pattern": _pattern(written.get("pattern", "")),
        "calls": _calls(written.get("calls", [])),
        "usage": _usage(written["usage"]) if "usage" in written else None,
    }
    rule = ScriptRule(**{**written, **read})
    if rule.expand:
        _check_template(rule)
    return rule


def _pattern(written: str) -> re.Pattern[str]:
    try:
        return re.compile(written)
    except re.error as error:
        text = f"pattern {written!r} is no regular expression: {error}"
        raise _Malformed(text, "pattern") from None


def _check_template(rule: ScriptRule) -> None:
    if not rule.pattern.pattern:
        raise _Malformed("expand needs a pattern, whose groups the answer names", "expand")
    try:
        rule.pattern.sub(rule.answer or "", "")  # reads the template, whether it matches or not
    except (re.error, IndexError) as error:
        raise _Malformed(f"answer cannot be expanded: {error}", "answer") from None


def _usage(written: Mapping[Any, Any]) -> Usage:
    known = Usage.__struct_fields__
    for key, value in written.items():
        if key not in known:
            raise _Malformed(f"usage has no key {key!r}; it has {', '.join(known)}", "usage", key)
        if not _is_count(value):
            raise _Malformed(f"{key} is a whole number, not {_short(str(value))}", "usage", key)
    return Usage(**written)


def _calls(written: list[Any]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for at, item in enumerate(written):
        with _within("calls", at):
            call = _call(item)
            if call.id and call.id in (earlier.id for earlier in calls):
                raise _Malformed(f"two calls have the id {call.id!r}")
            calls.append(call)
    return tuple(calls)


def _call(written: object) -> ToolCall:
    """Read `{TOOL: ARGUMENTS}`, or `{tool: TOOL, id: ID, arguments: ARGUMENTS}`."""
    if not isinstance(written, Mapping):
        raise _Malformed(
            f"a call is a mapping: write `- TOOL: {{...}}`, not {_short(str(written))}"
        )
    if isinstance(written.get("tool"), str):
        for key in written.keys() - {"tool", "id", "arguments"}:
            raise _Malformed(f"a call has no key {key!r}; it has tool, id, arguments", key)
        name, id_, arguments = written["tool"], written.get("id", ""), written.get("arguments")
    elif len(written) == 1:
        [(name, arguments)], id_ = written.items(), ""
    else:
        keys = ", ".join(map(str, written)) or "nothing"
        raise _Malformed(f"a call names one tool, not {keys}: indent arguments below their tool")
    for text in (name, id_):
        if not isinstance(text, str):
            raise _Malformed(f"names and ids are texts: put {text!r} in quotes")
    return ToolCall(id_, FunctionCall(name, _arguments(name, arguments)))


def _arguments(tool: str, written: object) -> str:
    """Return arguments as a model writes them; a text stays as it is, also where it is no JSON."""
    if isinstance(written, str):
        return written
    if written is not None and not isinstance(written, Mapping):
        raise _Malformed(f"arguments of {tool} are a mapping, not {_short(str(written))}")
    try:
        return canonical.to_json_line(written or {}).decode()
    except TypeError as error:
        raise _Malformed(
            f"arguments of {tool} are no JSON ({error}): put names in quotes"
        ) from None


def _read(path: Path) -> list[ScriptRule]:
    """Read a script; its YAML nodes tell in which line something is wrong."""
    import yaml  # noqa: PLC0415 - slow to import, and only scripts in files need it

    top: Any = None
    try:
        loader = yaml.SafeLoader(path.read_bytes())
        top = loader.get_single_node()
        if top is not None:
            _check_doubled(top)
        return _rules(loader.construct_document(top) if top is not None else None)
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error}); name a YAML file with rules"
        raise ScriptError(f"{path}: {reason}") from None
    except _Malformed as error:
        raise ScriptError(f"{path}, line {_find(top, error.path)[1]}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = "put a text with signs such as `: # , ?` in quotes"
        raise ScriptError(f"{path}, line {line}: not YAML: {error.problem}; {hint}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScriptError(f"{path}: not YAML: {_short(str(error))}") from None


def _rules(written: object) -> list[ScriptRule]:
    if not isinstance(written, Mapping) or not isinstance(written.get("rules"), list):
        raise _Malformed("a script begins with `rules:`; below it stands each rule after a `- `")
    for key in written.keys() - {"rules"}:
        raise _Malformed(f"a script has no key {key!r}; it has rules", key)
    rules: list[ScriptRule] = []
    for at, rule in enumerate(written["rules"]):
        with _within("rules", at):
            rules.append(_rule(rule))
    return rules


def _check_doubled(top: Any) -> None:
    """YAML takes the last of two equal keys in silence; here they are two rules run together."""
    _check_keys(top, "one list holds all rules")
    rules, _ = _find(top, ["rules"])
    for at, rule in enumerate(rules.value if rules.id == "sequence" else ()):
        with _within("rules", at):
            _check_keys(rule, "begin each rule with `- `")


def _check_keys(node: Any, hint: str) -> None:
    keys = [key.value for key, _ in node.value] if node.id == "mapping" else []
    for key in keys:
        if keys.count(key) > 1:
            raise _Malformed(f"{key} stands here twice: {hint}")


def _find(top: Any, path: Sequence[object]) -> tuple[Any, int]:
    """Return the YAML node that a path leads to, as far as it can be followed, and its line.

    Lines count from 1; that of a member is its key's.
    """
    node, line = top, 0 if top is None else top.start_mark.line
    for step in path:
        if isinstance(step, int) and node.id == "sequence":
            node = node.value[step]
            line = node.start_mark.line
        elif node.id == "mapping":
            found = [(value, key.start_mark.line) for key, value in node.value if key.value == step]
            node, line = found[0] if found else (node, line)
    return node, line + 1
