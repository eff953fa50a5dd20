"""The links between events of a session that grows."""

from __future__ import annotations

from pathlib import Path

from harken.cli.commands.demo import play
from harken.core import events as ev
from harken.session.log.reader import iter_events
from harken.views.links import Link, Links
from tests.session_kit import session_options


class CountingLinks(Links):
    """Counts the events whose links are computed."""

    count = 0

    def links_from(self, event: ev.Event) -> list[Link]:
        self.count += 1
        return super().links_from(event)


def test_following_computes_the_links_of_new_events_only(tmp_path: Path) -> None:
    log = tmp_path / "demo.jsonl"
    play(log, session_options())
    events = list(iter_events(log))
    links = CountingLinks(events[:1])
    links.events_to("msg_000")
    for number, event in enumerate(events[1:], 2):
        links.count = 0
        links.extend([event])
        expected = Links(events[:number])
        for earlier in events[:number]:
            assert links.events_to(earlier.message_id) == expected.events_to(earlier.message_id)
        assert links.count == 1
        assert links.links_from(event) == expected.links_from(event)
    assert len(events) > 50
