"""Run the conformance suite for formats on the built-in formats and on a third-party one."""

from __future__ import annotations

import pytest

from harken.formats import events_v1, messages_v1, narrative
from harken.formats.base import ConversationEntry
from harken.formats.frameworks import adk_events, openai_items, pydantic_messages
from harken.formats.runtimes.claude_code import reader as claude_code
from harken.formats.runtimes.codex import reader as codex
from harken.formats.runtimes.gemini_cli import reader as gemini_cli
from harken.formats.runtimes.opencode import reader as opencode
from harken.formats.runtimes.pi import reader as pi
from harken.formats.runtimes.research import atif
from harken.testing import FormatSuite
from tests.unit.context.toy_formats import TOY_1, TOY_2, read_v1
from tests.unit.formats.transcript_kit import (
    Transcript,
    encode_lines,
    text_block,
    thinking_block,
    tool_use_block,
)


@pytest.mark.req("S2-52", "S2-53")
class TestEvents(FormatSuite):
    format = events_v1.FORMAT


class TestAtif(FormatSuite):
    format = atif.FORMAT


class TestMessages(FormatSuite):
    format = messages_v1.FORMAT


class TestOpenAiItems(FormatSuite):
    format = openai_items.FORMAT


class TestPydanticMessages(FormatSuite):
    format = pydantic_messages.FORMAT


class TestAdkEvents(FormatSuite):
    format = adk_events.FORMAT


class TestClaudeCode(FormatSuite):
    format = claude_code.FORMAT

    def sample(self) -> bytes:
        transcript = Transcript()
        transcript.user("Is somebody at the door?")
        transcript.answer(
            thinking_block("Hm."),
            text_block("I look."),
            tool_use_block("c1", "Task", prompt="Look."),
        )
        transcript.result("c1", "Nobody.")
        transcript.answer(text_block("Nobody."))
        # Records have no ids: a repeated record is another one and follows its predecessor.
        names = ("uuid", "parentUuid")
        return encode_lines(
            {n: v for n, v in r.items() if n not in names} for r in transcript.records
        )


class TestPi(FormatSuite):
    format = pi.FORMAT


class TestCodex(FormatSuite):
    format = codex.FORMAT


class TestGemini(FormatSuite):
    format = gemini_cli.FORMAT


class TestOpenCode(FormatSuite):
    format = opencode.FORMAT


@pytest.mark.req("S2-59")
class TestNarrative(FormatSuite):
    format = narrative.FORMAT


@pytest.mark.req("S2-56")
class TestToy(FormatSuite):
    format = TOY_1

    def conversation(self) -> list[ConversationEntry]:
        return read_v1(b"< Hi\n> Ho\n")


@pytest.mark.req("S2-57", "S2-58")
class TestLaterToy(FormatSuite):
    format = TOY_2

    def older_samples(self) -> dict[str, bytes]:
        return {"toy-v1": b"< Hi\n> Ho\n"}
