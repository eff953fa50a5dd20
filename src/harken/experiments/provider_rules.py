"""Rules of providers for valid conversations, and checks of edited contexts against them.

A rule is a sentence and a function that yields its violations. An edited context is rejected only
for violations that the edit introduced; others were accepted by the provider before.

Harken's writers repair many violations on output. A rerun must not be repaired silently, because
the comparison would then be of a different context than the requested one.

Source: the providers' documented errors. Only the structure is checked, because signatures can be
verified by the provider only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from harken.core.messages import ChatMessage, TextPart, ThinkingPart, message_hash
from harken.errors import ConfigError
from harken.views.message_text import heading

Family: TypeAlias = Literal["anthropic", "chat", "responses", "gemini"]
"""Rule sets: Anthropic Messages, OpenAI Chat Completions, OpenAI Responses, Gemini."""
FAMILIES: tuple[Family, ...] = get_args(Family)

_Violations: TypeAlias = Iterator[tuple[int, str]]
"""Position and identity of violations. A known identity at another position is not new."""
_Check: TypeAlias = Callable[[Sequence[ChatMessage]], _Violations]


class ProviderRule(msgspec.Struct, frozen=True):
    """A rule that a provider enforces."""

    name: str
    sentence: str
    families: tuple[Family, ...]
    check: _Check


class RuleViolation(msgspec.Struct, frozen=True):
    """A violation of a rule in a context."""

    rule: ProviderRule
    position: int
    """Position of the message, from 0; the number of messages means the end."""
    identity: str

    def format_line(self, messages: Sequence[ChatMessage]) -> str:
        """Format the violation as one line."""
        if self.position >= len(messages):
            return f"{self.rule.sentence} (rule {self.rule.name}; at the end)"
        location = f"message #{self.position}, {heading(messages[self.position])}"
        return f"{self.rule.sentence} (rule {self.rule.name}; {location})"


class ContextRefused(ConfigError):
    """An edited context violates a rule of its provider. Nothing was run."""

    def __init__(self, breach: RuleViolation, messages: Sequence[ChatMessage]) -> None:
        super().__init__(f"the edited context is not valid: {breach.format_line(messages)}")
        self.violation = breach


def find_violations(
    messages: Sequence[ChatMessage], family: Family | None = None
) -> list[RuleViolation]:
    """Return all violations of a family's rules, or of the rules of all families.

    >>> from harken.core.messages import Message
    >>> [
    ...     one.rule.name
    ...     for one in find_violations([Message("tool", "4", tool_call_id="c1", name="add")])
    ... ]
    ['result-without-call']
    """
    return [
        RuleViolation(rule, position, identity)
        for rule in RULES
        if (family in rule.families if family is not None else rule.families == FAMILIES)
        for position, identity in rule.check(messages)
    ]


def check_edit(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], family: Family | None = None
) -> None:
    """Raise ContextRefused for the first violation that an edit introduces."""
    existing = {
        (violation.rule.name, violation.identity) for violation in find_violations(before, family)
    }
    violations = [*find_violations(after, family), *_find_changed_thinking(before, after)]
    for violation in sorted(violations, key=lambda violation: violation.position):
        if (violation.rule.name, violation.identity) not in existing:
            raise ContextRefused(violation, after)


def find_family(model: str) -> Family | None:
    """Return the rule set of a model, or None if its name does not tell.

    >>> (
    ...     find_family("anthropic/claude-opus-5-5"),
    ...     find_family("gpt-6"),
    ...     find_family("scripted:x.yaml"),
    ... )
    ('anthropic', 'chat', None)
    """
    provider, separator, name = model.rpartition("/")
    name = name.lower()
    if ":" in provider or (not separator and model.startswith(("scripted:", "replay:"))):
        return None
    if provider == "anthropic" or name.startswith("claude"):
        return "anthropic"
    if name.startswith("gemini"):
        return "gemini"
    if "codex" in name:
        return "responses"
    return "chat" if separator or name.startswith(("gpt", "o1", "o3", "o4", "chatgpt")) else None


def _iter_open_calls(
    messages: Sequence[ChatMessage],
) -> Iterator[tuple[int, ChatMessage, set[str]]]:
    """Yield each message with the ids of calls that have no result before it."""
    open_ids: set[str] = set()
    for position, message in enumerate(messages):
        yield position, message, set(open_ids)
        if message.role == "tool":
            open_ids.discard(message.tool_call_id or "")
        else:
            open_ids = {call.id for call in message.tool_calls or ()}


def _find_results_without_call(messages: Sequence[ChatMessage]) -> _Violations:
    call_ids = {call.id for message in messages for call in message.tool_calls or ()}
    for position, message, open_ids in _iter_open_calls(messages):
        id_ = message.tool_call_id or ""
        if message.role == "tool" and id_ not in open_ids and id_ not in call_ids:
            yield position, id_


def _find_misplaced_results(messages: Sequence[ChatMessage]) -> _Violations:
    """Yield results whose call is not directly before them, or was answered before."""
    call_ids: set[str] = set()
    answered_ids: set[str] = set()
    for position, message, open_ids in _iter_open_calls(messages):
        id_ = message.tool_call_id or ""
        if message.role == "tool" and id_ not in open_ids and id_ in call_ids - answered_ids:
            yield position, id_
        call_ids |= {call.id for call in message.tool_calls or ()}
        if message.role == "tool":
            answered_ids.add(id_)


def _find_second_results(messages: Sequence[ChatMessage]) -> _Violations:
    answered_ids: set[str] = set()
    for position, message in enumerate(messages):
        id_ = message.tool_call_id or ""
        if message.role == "tool" and id_ in answered_ids:
            yield position, id_
        answered_ids -= {call.id for call in message.tool_calls or ()}  # An id may be used again.
        if message.role == "tool":
            answered_ids.add(id_)


def _find_calls_without_result(messages: Sequence[ChatMessage]) -> _Violations:
    calls: dict[str, int] = {}
    for position, message in enumerate(messages):
        if message.role == "tool":
            calls.pop(message.tool_call_id or "", None)
            continue
        yield from ((call_position, id_) for id_, call_position in calls.items())
        calls = {call.id: position for call in message.tool_calls or ()}
    yield from ((call_position, id_) for id_, call_position in calls.items())


def _find_missing_input(messages: Sequence[ChatMessage]) -> _Violations:
    if all(message.role == "system" for message in messages):
        yield len(messages), "nothing"


def _find_trailing_answer(context_messages: Sequence[ChatMessage]) -> _Violations:
    if context_messages and context_messages[-1].role == "assistant":
        yield len(context_messages) - 1, "answered"


def _find_wrong_first_role(messages: Sequence[ChatMessage]) -> _Violations:
    others = [
        (position, message) for position, message in enumerate(messages) if message.role != "system"
    ]
    if others and others[0][1].role != "user":
        yield others[0][0], others[0][1].role


def _find_empty(messages: Sequence[ChatMessage]) -> _Violations:
    for position, message in enumerate(messages):
        if (
            message.role in ("user", "assistant")
            and not _list_parts(message)
            and not message.tool_calls
        ):
            yield position, f"{message.role} {message_hash(message)}"


def _find_blank(messages: Sequence[ChatMessage]) -> _Violations:
    for position, message in enumerate(messages):
        if message.role == "tool":
            continue
        texts = [part.text for part in _list_parts(message) if isinstance(part, TextPart)]
        if any(not text.strip() for text in texts):
            yield position, message_hash(message)


def _find_only_thinking(messages: Sequence[ChatMessage]) -> _Violations:
    for position, message in enumerate(messages):
        is_thinking = [isinstance(part, ThinkingPart) for part in _list_parts(message)]
        next_role = messages[position + 1].role if position + 1 < len(messages) else ""
        if is_thinking and all(is_thinking) and not message.tool_calls and next_role != "assistant":
            yield position, message_hash(message)


def _list_parts(message: ChatMessage) -> list[object]:
    content = message.content
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [part for part in content or () if getattr(part, "text", None) != ""]


def _find_changed_thinking(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage]
) -> Iterator[RuleViolation]:
    """Yield thoughts that were changed but still have their signature, which providers reject."""
    signed_texts = {repr(part.meta): part.text for part in _iter_signed_thoughts(before)}
    for position, message in enumerate(after):
        for part in _iter_signed_thoughts([message]):
            if signed_texts.get(repr(part.meta), part.text) != part.text:
                yield RuleViolation(SIGNED_THINKING, position, part.text)


def _iter_signed_thoughts(messages: Sequence[ChatMessage]) -> Iterator[ThinkingPart]:
    for message in messages:
        for part in message.content if isinstance(message.content, list) else ():
            if isinstance(part, ThinkingPart) and part.meta:
                yield part


SIGNED_THINKING = ProviderRule(
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
        _find_missing_input,
    ),
    ProviderRule(
        "result-without-call",
        "a result answers a call: drop the result where its call is dropped",
        FAMILIES,
        _find_results_without_call,
    ),
    ProviderRule(
        "result-elsewhere",
        "a result stands right after the message that made its call",
        FAMILIES,
        _find_misplaced_results,
    ),
    ProviderRule("second-result", "a call has exactly one result", FAMILIES, _find_second_results),
    ProviderRule(
        "call-without-result",
        "each call has its result before anything else is said: drop the call where its result "
        "is dropped",
        FAMILIES,
        _find_calls_without_result,
    ),
    ProviderRule(
        "ends-with-an-answer",
        "a context ends with something to answer: what a user said, or a result",
        FAMILIES,
        _find_trailing_answer,
    ),
    ProviderRule(
        "user-first",
        "the first message after the system prompt is a user's",
        ("anthropic", "gemini"),
        _find_wrong_first_role,
    ),
    ProviderRule("empty-message", "a message is not empty", ("anthropic", "gemini"), _find_empty),
    ProviderRule(
        "empty-answer",
        "an answer has a text or calls",
        ("chat", "responses"),
        lambda messages: (
            found for found in _find_empty(messages) if messages[found[0]].role == "assistant"
        ),
    ),
    ProviderRule("blank-text", "a text is more than white space", ("anthropic",), _find_blank),
    ProviderRule(
        "thinking-alone",
        "thinking is followed by what it led to: a text or a call",
        ("anthropic", "responses"),
        _find_only_thinking,
    ),
)
"""All rules, structural rules first."""
