"""The time zone of this machine, with its summer time in every year."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from harken.config.home import environment


class LocalZone(tzinfo):
    """What the system's own rules say of each moment.

    The zone of `datetime.now().astimezone()` has the offset of now alone: in winter it would move
    last summer's hours by one.
    """

    def fromutc(self, dt: datetime) -> datetime:
        """Return a time, given as one of UTC, as the clocks here show it."""
        there = dt.replace(tzinfo=UTC).astimezone()
        here = there.replace(tzinfo=self)
        return here if self.utcoffset(here) == there.utcoffset() else here.replace(fold=1)

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Return how far the clocks here are ahead of UTC at a time that they show."""
        return _system(dt).utcoffset()

    def dst(self, dt: datetime | None) -> timedelta | None:
        """Return None: the system says what the clocks show, not why."""
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Return what the system calls the zone at a time."""
        return _system(dt).tzname()


def zone_name() -> str:
    """Return the name of the zone of this machine, such as Europe/Berlin; UTC where it has none."""
    named = environment().get("TZ", "").removeprefix(":")
    linked = os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    for name in filter(None, (named, linked)):
        try:
            return ZoneInfo(name).key
        except (ValueError, OSError, LookupError):
            continue
    return "UTC"


def _system(dt: datetime | None) -> datetime:
    return (datetime.now(UTC) if dt is None else dt.replace(tzinfo=None)).astimezone()
