"""The time zone of a machine, in processes with zones of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHOW = """
import sys
from datetime import UTC, datetime
from harken.config.local_zone import LocalZone
for text in sys.argv[1:]:
    when = datetime.fromisoformat(text).replace(tzinfo=UTC).astimezone(LocalZone())
    print(when.isoformat(), when.astimezone(UTC).isoformat()[:16] == text)
"""


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "UTC"])
def test_it_shows_what_the_zone_shows_in_summer_and_winter(zone: str) -> None:
    times = ["2026-01-05T12:00", "2026-07-06T12:00", "2026-10-25T00:30", "2026-10-25T01:30"]
    shown = subprocess.run(
        [sys.executable, "-c", SHOW, *times],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    expected = [
        datetime.fromisoformat(text).replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).isoformat()
        for text in times
    ]
    assert shown == [f"{text} True" for text in expected]
