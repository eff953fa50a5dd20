"""Harken's own formats do what every format must do."""

from __future__ import annotations

import pytest

from harken.formats import events_v1, messages_v1, narrative
from harken.testing.formats import FormatSuite


@pytest.mark.req("S2-52", "S2-53")
class TestEvents(FormatSuite):
    format = events_v1.FORMAT


class TestMessages(FormatSuite):
    format = messages_v1.FORMAT


@pytest.mark.req("S2-59")
class TestNarrative(FormatSuite):
    format = narrative.FORMAT
