"""The time zone of this machine, with its summer time in every year."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo


class LocalZone(tzinfo):
    """The zone of the system, with the right UTC offset at every time.

    The zone of `datetime.now().astimezone()` has only the current offset: in winter it would move
    last summer's hours by one. A `ZoneInfo` is not enough either: `TZ` may hold rules without a
    name, as in `CET-1CEST,M3.5.0,M10.5.0/3`, which only the system reads.
    """

    def fromutc(self, dt: datetime) -> datetime:
        """Convert a UTC time to local time."""
        system_time = dt.replace(tzinfo=UTC).astimezone()
        local_time = system_time.replace(tzinfo=self)
        return (
            local_time
            if self.utcoffset(local_time) == system_time.utcoffset()
            else local_time.replace(fold=1)
        )

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Return the UTC offset at a local time."""
        return _system_time(dt).utcoffset()

    def dst(self, dt: datetime | None) -> timedelta | None:
        """Return None, since the system does not report the summer time offset separately."""
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Return the system's abbreviation of the zone at a time."""
        return _system_time(dt).tzname()


def zone_name() -> str:
    """Return the name of the zone of this machine, such as Europe/Berlin, or UTC if it has none."""
    import tzlocal

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # A machine without a zone is usual: a container.
            return ZoneInfo(str(tzlocal.get_localzone())).key
    except (LookupError, OSError, ValueError):
        return "UTC"


def _system_time(dt: datetime | None) -> datetime:
    return (datetime.now(UTC) if dt is None else dt.replace(tzinfo=None)).astimezone()
