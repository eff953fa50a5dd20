"""When what a client sends, and what it should send, are the same.

One idea: what may differ stands in `harken.capture.allowed`. It is taken out of both, and what is
left is compared message by message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harken.capture.allowed import RULES, Rule
from harken.capture.changes import text_of_block
from harken.capture.difference import Message, Request, Row, rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two requests compare."""

    rows: tuple[Row, ...]
    ignored: tuple[Rule, ...]
    """What was found that may differ."""

    @property
    def differences(self) -> list[Row]:
        """The messages that are not the same."""
        return [row for row in self.rows if row.state != "same"]


def compare(runtime: str, expected: Request, sent: Request, *, prompt: str = "") -> Comparison:
    """Compare a request with what it should be.

    prompt: what the client was asked beside the conversation: it ends where that begins.
    """
    theirs = list(_before(sent, prompt)) if prompt else sent
    ours, ignored = expected, []
    for rule in RULES:
        if runtime not in rule.clients:
            continue
        before = (theirs, ours)
        theirs = rule.sent(theirs, ours) if rule.sent else theirs
        ours = rule.expected(ours, before[0]) if rule.expected else ours
        if (theirs, ours) != before:
            ignored.append(rule)
    return Comparison(tuple(rows(ours, theirs)), tuple(ignored))


def _before(request: Request, prompt: str) -> Iterator[Message]:
    """Yield what stands before a prompt."""
    for message in request:
        whole = "content" if "content" in message else "parts"
        blocks = message.get(whole)
        listed = blocks if isinstance(blocks, list) else [blocks]
        at = next((at for at, block in enumerate(listed) if prompt in text_of_block(block)), None)
        if at is None:
            yield message
            continue
        if at:
            yield {**message, whole: listed[:at]}
        return
