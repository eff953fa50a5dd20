"""Verdicts of hooks: the question, the possible verdicts, and their text form in a log.

The text forms are `OK`, `COMMENT: ...`, `DENY: ...` and `REWRITE: ...`. Code writes exactly these;
a model adds reasons before them and Markdown around them. To tell a verdict from a quotation, a
verdict must begin a line, and text in a code block or in quotes is a verdict only if the answer
contains nothing else. So a text under judgment does not become the verdict by being quoted.

This module does not depend on agents: any agent can be asked, and can answer by code or by a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from harken.core.arguments import check_arguments
from harken.core.event_types.spec import HookPoint
from harken.core.events import Reference, TranscriptEntry, VerdictKind
from harken.core.logged_string import preview
from harken.core.messages import ToolCall
from harken.core.untrusted import escape_hook_markers

VerdictWord: TypeAlias = Literal["OK", "COMMENT", "DENY", "REWRITE"]

_THINKING_PATTERN = re.compile(
    r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE
)
_MARKS = r"[*_]{0,3}"
_LABEL = rf"(?:(?:final|my)\s+)?(?:verdict|answer|decision){_MARKS}[ \t]*[:\uff1a]{_MARKS}[ \t]*"
_BEGIN = rf"[ \t]{{0,3}}(?:#{{1,6}}[ \t]+)?({_MARKS})(?:{_LABEL})?({_MARKS})"
_END_OF_WORD = r"(?:[:\uff1a\u2013\u2014]|[.,!](?![^\s*_])|(?<=[ \t])-|-(?!\S))"
_OK_PATTERN = re.compile(rf"{_BEGIN}OK[.!]?{_MARKS}\s*", re.IGNORECASE)
_VERDICT_PATTERN = re.compile(
    rf"{_BEGIN}(COMMENT|DENY|REWRITE)({_MARKS})[ \t]*[:\uff1a]({_MARKS})[ \t]*(.*)",
    re.IGNORECASE,
)
_FIRST_WORD_PATTERN = re.compile(
    rf"{_BEGIN}([A-Z]+)({_MARKS})(?:[ \t]*{_END_OF_WORD}({_MARKS})[ \t]*(.*))?", re.IGNORECASE
)
_VERDICT_WORDS: Mapping[str, VerdictWord] = {
    **dict.fromkeys(("OK", "OKAY", "ACCEPT", "ACCEPTED"), "OK"),
    "COMMENT": "COMMENT",
    **dict.fromkeys(("DENY", "DENIED", "BLOCK"), "DENY"),
    "REWRITE": "REWRITE",
}
_OTHER_VERDICT_PATTERN = re.compile(
    r"(?im)(?:^|[.:;!?-])\s*(?:comment|block|rewrite)\b|\b(?:deny|denied)\b"
    r"|\b(?-i:COMMENT|BLOCK|REWRITE)\b"
)
_CONDITION_PATTERN = re.compile(
    r"(?:but|however|except|unless|if|provided|only|let me|let us|let's|i will|i'll|i need)\b",
    re.IGNORECASE,
)
_FENCE_PATTERN = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_QUOTES = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u00ab": "\u00bb"}


class ParsedVerdict(NamedTuple):
    """A verdict in its text form."""

    word: VerdictWord
    text: str
    """The comment, the reason or the new text; empty for OK."""


def parse_model_verdict(words: str) -> ParsedVerdict | None:
    r"""Parse a verdict as a model writes it. Return None if there is none, or several that differ.

    The first word of the text is a verdict if a punctuation mark or the end of the line follows
    it. After that a verdict is a line of its own: `DENY: ...`, or `OK` as the last line.

    >>> parse_model_verdict("It only reads.\n\n**Verdict:** ok"), parse_model_verdict("OK, fine.")
    (ParsedVerdict(word='OK', text=''), ParsedVerdict(word='OK', text=''))
    >>> parse_model_verdict("It deletes files.\n**DENY:** ask"), parse_model_verdict("Deny - ask")
    (ParsedVerdict(word='DENY', text='ask'), ParsedVerdict(word='DENY', text='ask'))
    >>> parse_model_verdict("It says:\n```\nOK\n```"), parse_model_verdict("OK, but: DENY")
    (None, None)
    """
    lines = unwrap(_THINKING_PATTERN.sub("", words).strip()).split("\n")
    verdicts = list(_iter_verdicts(lines))
    first = None if _VERDICT_PATTERN.fullmatch(lines[0]) else _parse_first_word(lines)
    verdicts = verdicts if first is None else [first, *verdicts]
    if not verdicts or any(verdict != verdicts[0] for verdict in verdicts):
        return None
    is_last = verdicts[0].word != "OK" or _OK_PATTERN.fullmatch(lines[-1]) is not None
    return verdicts[0] if is_last or first is not None else None


def _parse_first_word(lines: list[str]) -> ParsedVerdict | None:
    """Parse the first word of a text as a verdict. Return None if it is none, or ambiguous.

    A text that follows `OK` must not name another verdict, a condition or a plan.
    """
    match = _FIRST_WORD_PATTERN.fullmatch(lines[0])
    if match is None or match[3].upper() not in _VERDICT_WORDS:
        return None
    word, text = _parse_verdict_lines(match, lines[1:])
    if word == "OK":
        is_ambiguous = _OTHER_VERDICT_PATTERN.search(text) or _CONDITION_PATTERN.match(text)
        return None if is_ambiguous else ParsedVerdict("OK", "")
    return ParsedVerdict(word, text) if text else None


def strip_code_fence(text: str) -> str:
    r"""Return the content of a code block if the text consists of it alone, else the text.

    >>> strip_code_fence('```json\n{"a": 1}\n```'), strip_code_fence("a")
    ('{"a": 1}', 'a')
    """
    first, *lines = text.strip().split("\n")
    fence = _FENCE_PATTERN.match(first)
    if fence is None or not lines or lines[-1].strip() != fence[1]:
        return text
    inner = lines[:-1]
    return text if any(line.startswith(fence[1]) for line in inner) else "\n".join(inner)


def unwrap(text: str) -> str:
    """Remove a code block or quotes that enclose the full text."""
    inner = strip_code_fence(text).strip()
    closing = _QUOTES.get(inner[:1])
    if closing is not None and len(inner) > 1 and inner.endswith(closing):
        middle = inner[1:-1]
        return middle.strip() if closing not in middle else inner
    return inner


def _iter_verdicts(lines: list[str]) -> Iterator[ParsedVerdict]:
    """Yield the verdicts that begin lines, each with the text up to the next verdict."""
    starts = [start for start in iter_unfenced_lines(lines) if _is_verdict_line(lines[start])]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        match = _VERDICT_PATTERN.fullmatch(lines[start])
        yield (
            ParsedVerdict("OK", "")
            if match is None
            else _parse_verdict_lines(match, lines[start + 1 : end])
        )


def iter_unfenced_lines(lines: list[str]) -> Iterator[int]:
    """Yield the indexes of lines outside of code blocks."""
    fence = ""
    for index, line in enumerate(lines):
        match = _FENCE_PATTERN.match(line)
        if match is None and not fence:
            yield index
        elif match is not None and (not fence or match[1].startswith(fence)):
            fence = "" if fence else match[1]


def _is_verdict_line(line: str) -> bool:
    return _VERDICT_PATTERN.fullmatch(line) is not None or _OK_PATTERN.fullmatch(line) is not None


def _parse_verdict_lines(match: re.Match[str], lines: list[str]) -> ParsedVerdict:
    """Return the verdict that begins at a line, without enclosing Markdown marks."""
    text = "\n".join([match[6] or "", *lines]).strip()
    marks = match[1] + match[2]
    if marks and not match[4] and not match[5]:
        text = text.removesuffix(marks)
    return ParsedVerdict(_VERDICT_WORDS[match[3].upper()], text)


HOOK_POINTS: frozenset[HookPoint] = frozenset({"input", "action", "result", "response"})
BLOCKING_POINTS: frozenset[HookPoint] = frozenset({"action", "response"})
"""Points at which a failed hook blocks; at the others its failure is ignored."""


class Ok(msgspec.Struct, frozen=True):
    """The hook has no objection."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Comment:
    """A comment for the watched agent."""

    text: str


@check_arguments
@dataclass(frozen=True, slots=True)
class Deny:
    """The action or response is denied."""

    reason: str


@check_arguments
@dataclass(frozen=True, slots=True)
class Rewrite:
    """New arguments (JSON) for an action, or a new text for a response."""

    text: str


Verdict: TypeAlias = Ok | Comment | Deny | Rewrite
ALLOWED_VERDICTS: dict[HookPoint, tuple[type, ...]] = {
    "input": (Ok, Comment),
    "result": (Ok, Comment),
    "action": (Ok, Comment, Deny, Rewrite),
    "response": (Ok, Comment, Deny, Rewrite),
}
"""The verdicts that are allowed at each point; any other counts as a failure of the hook."""
VERDICT_FORMS: Mapping[type, str] = {
    Ok: "OK",
    Comment: "COMMENT: what the agent shall hear",
    Deny: "DENY: why it must not be",
    Rewrite: "REWRITE: what it shall be instead, the arguments as JSON or the whole response",
}
"""The text form of each verdict, as instructions for a model."""


def check_verdict(verdict: Verdict, point: HookPoint) -> Verdict:
    """Return a verdict if it is valid at this point. Raises TypeError otherwise."""
    if not isinstance(verdict, ALLOWED_VERDICTS[point]):
        forms = ", ".join(kind.__name__ for kind in ALLOWED_VERDICTS[point])
        raise TypeError(f"{verdict!r} is not a verdict on {point}: return an instance of {forms}")
    text = verdict.reason if isinstance(verdict, Deny) else getattr(verdict, "text", "")
    if not isinstance(text, str):
        raise TypeError(f"{verdict!r} has no text")
    return verdict


@check_arguments
@dataclass(frozen=True, slots=True)
class HookQuestion:
    """A question for a hook: the action or message to judge."""

    point: HookPoint
    agent: str
    """The name of the watched agent."""
    subject: Reference
    """The message or call that is judged."""
    text: str
    """The input, result or response; for an action, its arguments as JSON."""
    call: ToolCall | None = None
    """The action itself, as hooks before this one have rewritten it."""

    @property
    def prompt(self) -> str:
        """The question as text for the hook. The judged text is enclosed in two equal lines."""
        return self.format_with()

    def format_with(
        self, background: str = "", subagents: Sequence[str] | None = None, call_name: str = ""
    ) -> str:
        """Return the question with the background of the judged text before it.

        background: the input that is answered, the text beside the call, or for a result the
        arguments of its call, named `call_name`. subagents: their names, if they are to be shown.
        """
        sentences = []
        if subagents is not None:
            names = ": " + ", ".join(map(_quote_name, subagents)) if subagents else ""
            count = f"{len(subagents) or 'no'} subagent{'' if len(subagents) == 1 else 's'}"
            sentences.append(f"has {count}{names}.")
        if background:
            verb = {
                "input": "heard before",
                "action": "said",
                "result": f"called {_quote_name(call_name)} with",
                "response": "was asked",
            }[self.point]
            sentences.append(f"{verb}:\n{_fence(background)}")
        sentences.append(f"{self._activity}:\n{_fence(self.text)}")
        return f"[{self.point}] Agent {_quote_name(self.agent)} " + "\nIt ".join(sentences)

    @property
    def _activity(self) -> str:
        """The verb phrase of the question: the agent's past or next action."""
        tool = _quote_name(self.call.function.name) if self.call else ""
        return {
            "input": "has heard",
            "action": f"is about to call {tool} with",
            "result": "got the result",
            "response": "is about to answer",
        }[self.point]


@lru_cache(maxsize=8)
def _fence(text: str) -> str:
    """Enclose a text in fence lines that it does not contain. Cached: several hooks judge it."""
    text, fence = escape_hook_markers(text), "~~~"
    while fence in text:
        fence += "~"
    return f"{fence}\n{text}\n{fence}"


def is_question(entry: TranscriptEntry) -> bool:
    """Whether an entry of a hook's transcript is a question to judge."""
    return entry.purpose == "question"


@lru_cache(maxsize=64)
def _quote_name(name: str) -> str:
    """Return a simple name unchanged. Quote any other, so that it cannot be read as a sentence."""
    plain = re.fullmatch(r"[\w.:/-]{1,100}", name)
    return name if plain else json.dumps(name[:100])


def format_verdict(verdict: Verdict) -> str:
    """Format a verdict in the text form of the hook protocol."""
    match verdict:
        case Ok():
            return "OK"
        case Comment(text):
            return f"COMMENT: {text}"
        case Deny(reason):
            return f"DENY: {reason}"
        case Rewrite(text):
            return f"REWRITE: {text}"


class UnparsableVerdict(ValueError):
    """A model's answer is not a verdict that is allowed at this point."""


def parse_allowed_verdict(words: str, point: HookPoint) -> Verdict:
    r"""Parse a model's verdict that is allowed at this point. Raises UnparsableVerdict.

    >>> (
    ...     parse_allowed_verdict("It is the third one.\n**DENY:** too many", "action"),
    ...     parse_allowed_verdict("ok", "input"),
    ... )
    (Deny(reason='too many'), Ok())
    """
    parsed = parse_model_verdict(words)
    verdict = None if parsed is None else build_verdict(parsed)
    if verdict is None or not isinstance(verdict, ALLOWED_VERDICTS[point]):
        forms = ", ".join(
            form.partition(" ")[0]
            for kind, form in VERDICT_FORMS.items()
            if kind in ALLOWED_VERDICTS[point]
        )
        raise UnparsableVerdict(f"its answer {preview(words)!r} is none of {forms}")
    return verdict


def build_verdict(parsed: ParsedVerdict) -> Verdict:
    """Convert a parsed verdict to its class."""
    match parsed.word:
        case "OK":
            return Ok()
        case "COMMENT":
            return Comment(parsed.text)
        case "DENY":
            return Deny(parsed.text)
        case "REWRITE":
            return Rewrite(parsed.text)


def describe_verdict(verdict: Verdict) -> tuple[VerdictKind, str | None]:
    """Return the kind of a verdict, and its text."""
    match verdict:
        case Ok():
            return "ok", None
        case Comment(text):
            return "comment", text
        case Deny(reason):
            return "deny", reason
        case Rewrite(text):
            return "rewrite", text


def create_verdict(kind: VerdictKind, text: str | None) -> Verdict:
    """Return the verdict of this kind and text; a stop is a denial."""
    match kind:
        case "ok":
            return Ok()
        case "comment":
            return Comment(text or "")
        case "deny" | "stop":
            return Deny(text or "")
        case "rewrite":
            return Rewrite(text or "")
