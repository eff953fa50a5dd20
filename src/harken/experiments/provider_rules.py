"""Validity: what a provider refuses in a conversation, rule by rule.

One idea: a rule is a sentence and a function that finds where it is broken. An edited context is
refused for what the edit broke, not for what was there before: that, some provider has taken.

Harken's own writers mend much of this on the way out. A rerun must not be mended in silence: what
is compared would not be what was asked for.

Source: the providers' documented errors; the structure alone, for nobody but the provider can tell
whether a signature is genuine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from harken.core.messages import ChatMessage, TextPart, ThinkingPart, message_hash
from harken.errors import ConfigError
from harken.views.message_text import heading

Family: TypeAlias = Literal["anthropic", "chat", "responses", "gemini"]
"""Whose rules: Anthropic Messages, OpenAI Chat Completions, OpenAI Responses, Gemini."""
FAMILIES: tuple[Family, ...] = get_args(Family)

_Found: TypeAlias = Iterator[tuple[int, str]]
"""Where a rule is broken, and what by: the same thing elsewhere is no new breach."""
_Check: TypeAlias = Callable[[Sequence[ChatMessage]], _Found]


@dataclass(frozen=True, slots=True)
class ProviderRule:
    """What a provider demands."""

    name: str
    sentence: str
    families: tuple[Family, ...]
    check: _Check


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A rule that a context breaks."""

    rule: ProviderRule
    position: int
    """Of the message, from 0; the number of messages where it is the end."""
    what: str

    def told(self, messages: Sequence[ChatMessage]) -> str:
        """Return it on one line, for a person."""
        if self.position >= len(messages):
            return f"{self.rule.sentence} (rule {self.rule.name}; at the end)"
        where = f"message #{self.position}, {heading(messages[self.position])}"
        return f"{self.rule.sentence} (rule {self.rule.name}; {where})"


class ContextRefused(ConfigError):
    """An edit makes a context one that its provider refuses; nothing was run."""

    def __init__(self, breach: RuleViolation, messages: Sequence[ChatMessage]) -> None:
        super().__init__(f"the edited context is not valid: {breach.told(messages)}")
        self.breach = breach


def breaches(messages: Sequence[ChatMessage], family: Family | None = None) -> list[RuleViolation]:
    """Return where a context breaks the rules of a family; None: the rules that all share.

    >>> from harken.core.messages import Message
    >>> [one.rule.name for one in breaches([Message("tool", "4", tool_call_id="c1", name="add")])]
    ['result-without-call']
    """
    return [
        RuleViolation(rule, position, what)
        for rule in RULES
        if (family in rule.families if family is not None else rule.families == FAMILIES)
        for position, what in rule.check(messages)
    ]


def check_edit(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], family: Family | None = None
) -> None:
    """Raise ContextRefused for the first rule that an edit of a context breaks."""
    known = {(one.rule.name, one.what) for one in breaches(before, family)}
    found = [*breaches(after, family), *_changed_thinking(before, after)]
    for one in sorted(found, key=lambda one: one.position):
        if (one.rule.name, one.what) not in known:
            raise ContextRefused(one, after)


def family_of(model: str) -> Family | None:
    """Return whose rules hold for a model; None: the name does not say.

    >>> family_of("anthropic/claude-opus-5-5"), family_of("gpt-6"), family_of("scripted:x.yaml")
    ('anthropic', 'chat', None)
    """
    provider, slash, name = model.rpartition("/")
    name = name.lower()
    if ":" in provider or (not slash and model.startswith(("scripted:", "replay:"))):
        return None
    if provider == "anthropic" or name.startswith("claude"):
        return "anthropic"
    if name.startswith("gemini"):
        return "gemini"
    if "codex" in name:
        return "responses"
    return "chat" if slash or name.startswith(("gpt", "o1", "o3", "o4", "chatgpt")) else None


def _results(messages: Sequence[ChatMessage]) -> Iterator[tuple[int, ChatMessage, set[str]]]:
    """Yield each message with the ids of the calls that wait for a result before it."""
    waiting: set[str] = set()
    for position, message in enumerate(messages):
        yield position, message, set(waiting)
        if message.role == "tool":
            waiting.discard(message.tool_call_id or "")
        else:
            waiting = {call.id for call in message.tool_calls or ()}


def _without_call(messages: Sequence[ChatMessage]) -> _Found:
    made = {call.id for message in messages for call in message.tool_calls or ()}
    for position, message, waiting in _results(messages):
        id_ = message.tool_call_id or ""
        if message.role == "tool" and id_ not in waiting and id_ not in made:
            yield position, id_


def _elsewhere(messages: Sequence[ChatMessage]) -> _Found:
    """A result whose call stands elsewhere, or was answered before."""
    made: set[str] = set()
    answered: set[str] = set()
    for position, message, waiting in _results(messages):
        id_ = message.tool_call_id or ""
        if message.role == "tool" and id_ not in waiting and id_ in made - answered:
            yield position, id_
        made |= {call.id for call in message.tool_calls or ()}
        if message.role == "tool":
            answered.add(id_)


def _second(messages: Sequence[ChatMessage]) -> _Found:
    answered: set[str] = set()
    for position, message in enumerate(messages):
        id_ = message.tool_call_id or ""
        if message.role == "tool" and id_ in answered:
            yield position, id_
        answered -= {call.id for call in message.tool_calls or ()}  # an id may be used again
        if message.role == "tool":
            answered.add(id_)


def _without_result(messages: Sequence[ChatMessage]) -> _Found:
    calls: dict[str, int] = {}
    for position, message in enumerate(messages):
        if message.role == "tool":
            calls.pop(message.tool_call_id or "", None)
            continue
        yield from ((at, id_) for id_, at in calls.items())
        calls = {call.id: position for call in message.tool_calls or ()}
    yield from ((at, id_) for id_, at in calls.items())


def _nothing_left(messages: Sequence[ChatMessage]) -> _Found:
    if all(message.role == "system" for message in messages):
        yield len(messages), "nothing"


def _no_question(messages: Sequence[ChatMessage]) -> _Found:
    if messages and messages[-1].role == "assistant":
        yield len(messages) - 1, "answered"


def _first(messages: Sequence[ChatMessage]) -> _Found:
    said = [(at, message) for at, message in enumerate(messages) if message.role != "system"]
    if said and said[0][1].role != "user":
        yield said[0][0], said[0][1].role


def _empty(messages: Sequence[ChatMessage]) -> _Found:
    for position, message in enumerate(messages):
        if message.role in ("user", "assistant") and not _parts(message) and not message.tool_calls:
            yield position, f"{message.role} {message_hash(message)}"


def _blank(messages: Sequence[ChatMessage]) -> _Found:
    for position, message in enumerate(messages):
        if message.role == "tool":
            continue
        texts = [part.text for part in _parts(message) if isinstance(part, TextPart)]
        if any(not text.strip() for text in texts):
            yield position, message_hash(message)


def _only_thinking(messages: Sequence[ChatMessage]) -> _Found:
    for position, message in enumerate(messages):
        thought = [isinstance(part, ThinkingPart) for part in _parts(message)]
        follows = messages[position + 1].role if position + 1 < len(messages) else ""
        if thought and all(thought) and not message.tool_calls and follows != "assistant":
            yield position, message_hash(message)


def _parts(message: ChatMessage) -> list[object]:
    content = message.content
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [part for part in content or () if getattr(part, "text", None) != ""]


def _changed_thinking(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage]
) -> Iterator[RuleViolation]:
    """Yield thoughts whose signature is of another text: whoever signed them refuses them."""
    signed = {repr(part.meta): part.text for part in _thoughts(before)}
    for position, message in enumerate(after):
        for part in _thoughts([message]):
            if signed.get(repr(part.meta), part.text) != part.text:
                yield RuleViolation(SIGNED, position, part.text)


def _thoughts(messages: Sequence[ChatMessage]) -> Iterator[ThinkingPart]:
    for message in messages:
        for part in message.content if isinstance(message.content, list) else ():
            if isinstance(part, ThinkingPart) and part.meta:
                yield part


SIGNED = ProviderRule(
    "signed-thinking",
    "thinking is signed by its provider: it stays as it is, or goes as a whole",
    FAMILIES,
    lambda _: iter(()),
)
RULES = (
    ProviderRule(
        "nothing-to-answer",
        "a context holds more than its system prompt",
        FAMILIES,
        _nothing_left,
    ),
    ProviderRule(
        "result-without-call",
        "a result answers a call: drop the result where its call is dropped",
        FAMILIES,
        _without_call,
    ),
    ProviderRule(
        "result-elsewhere",
        "a result stands right after the message that made its call",
        FAMILIES,
        _elsewhere,
    ),
    ProviderRule("second-result", "a call has exactly one result", FAMILIES, _second),
    ProviderRule(
        "call-without-result",
        "each call has its result before anything else is said: drop the call where its result "
        "is dropped",
        FAMILIES,
        _without_result,
    ),
    ProviderRule(
        "ends-with-an-answer",
        "a context ends with something to answer: what a user said, or a result",
        FAMILIES,
        _no_question,
    ),
    ProviderRule(
        "user-first",
        "the first message after the system prompt is a user's",
        ("anthropic", "gemini"),
        _first,
    ),
    ProviderRule("empty-message", "a message is not empty", ("anthropic", "gemini"), _empty),
    ProviderRule(
        "empty-answer",
        "an answer has a text or calls",
        ("chat", "responses"),
        lambda messages: (
            found for found in _empty(messages) if messages[found[0]].role == "assistant"
        ),
    ),
    ProviderRule("blank-text", "a text is more than white space", ("anthropic",), _blank),
    ProviderRule(
        "thinking-alone",
        "thinking is followed by what it led to: a text or a call",
        ("anthropic", "responses"),
        _only_thinking,
    ),
)
"""All rules, those of the structure first."""
