"""The time zone of a machine, in processes with zones of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

TIMES = ["2026-01-05T12:00", "2026-07-06T12:00", "2026-10-25T00:30", "2026-10-25T01:30"]
SHOW = """
import sys
from datetime import UTC, datetime
from harken.config.local_zone import LocalZone
for text in sys.argv[1:]:
    when = datetime.fromisoformat(text).replace(tzinfo=UTC).astimezone(LocalZone())
    print(when.isoformat(), when.astimezone(UTC).isoformat()[:16] == text)
"""
NAME = "from harken.config.local_zone import zone_name; print(zone_name())"
LIBRARY = """
import tzlocal
try:
    print(tzlocal.get_localzone())
except LookupError as error:
    print(type(error).__name__)
"""
TOKYO = Path("/usr/share/zoneinfo/Asia/Tokyo")


def printed(code: str, *arguments: str, zone: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


def expected(zone: str) -> list[str]:
    moments = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in TIMES]
    return [f"{moment.astimezone(ZoneInfo(zone)).isoformat()} True" for moment in moments]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "UTC"])
def test_it_shows_what_the_zone_shows_in_summer_and_winter(zone: str) -> None:
    assert printed(SHOW, *TIMES, zone=zone) == expected(zone)


@pytest.mark.parametrize(
    ("rules", "zone"),
    [("CET-1CEST,M3.5.0,M10.5.0/3", "Europe/Berlin"), ("JST-9", "Asia/Tokyo")],
)
def test_rules_without_a_name_count_as_they_do_for_the_system(rules: str, zone: str) -> None:
    """tzlocal refuses them, so it names the zone only: the hours are the system's."""
    assert printed(SHOW, *TIMES, zone=rules) == expected(zone)
    assert printed(NAME, zone=rules) == ["UTC"]
    assert printed(LIBRARY, zone=rules) == ["ZoneInfoNotFoundError"]


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":America/St_Johns", "America/St_Johns"),
        ("EST5EDT", "EST5EDT"),
        ("nonsense", "UTC"),
        ("../../etc/passwd", "UTC"),
        ("/etc/passwd", "UTC"),
        ("/", "UTC"),
    ],
)
def test_the_zone_has_a_name_that_zoneinfo_knows_or_is_utc(zone: str, name: str) -> None:
    assert printed(NAME, zone=zone) == [name]


@pytest.mark.skipif(not TOKYO.is_file(), reason="needs the zones of the system")
def test_a_file_of_a_zone_has_the_name_of_the_zone() -> None:
    assert printed(NAME, zone=str(TOKYO)) == ["Asia/Tokyo"]
