"""Harken's own formats do what every format must do, and so does that of somebody else."""

from __future__ import annotations

import pytest

from harken.formats import events_v1, messages_v1, narrative
from harken.formats.base import ConversationEntry
from harken.formats.runtimes import atif
from harken.formats.runtimes.claude_code import reader as claude_code
from harken.formats.runtimes.codex import reader as codex
from harken.formats.runtimes.gemini_cli import reader as gemini_cli
from harken.formats.runtimes.opencode import reader as opencode
from harken.formats.runtimes.pi import reader as pi
from harken.testing import FormatSuite
from tests.unit.context.toy_formats import TOY_1, TOY_2, read_v1
from tests.unit.formats.transcripts import Transcript, lines, text, thought, use


@pytest.mark.req("S2-52", "S2-53")
class TestEvents(FormatSuite):
    format = events_v1.FORMAT


class TestAtif(FormatSuite):
    format = atif.FORMAT


class TestMessages(FormatSuite):
    format = messages_v1.FORMAT


class TestClaudeCode(FormatSuite):
    format = claude_code.FORMAT

    def sample(self) -> bytes:
        made = Transcript()
        made.user("Is somebody at the door?")
        made.answer(thought("Hm."), text("I look."), use("c1", "Task", prompt="Look."))
        made.result("c1", "Nobody.")
        made.answer(text("Nobody."))
        # Without names: a record that comes again is another one, and follows the one above it.
        names = ("uuid", "parentUuid")
        return lines({n: v for n, v in r.items() if n not in names} for r in made.records)


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
