"""Recorded discussions are played again in their order, with the answers of the user."""

from pathlib import Path

import pytest

from harken import SessionViewer
from harken.experiments.replay.check import check
from tests.unit.agents.discussion_kit import open_discussion
from tests.unit.agents.test_discussion_cuts import ORDERS


@pytest.mark.parametrize("order", ORDERS)
def test_a_replayed_discussion_is_equal(tmp_path: Path, order: str) -> None:
    one = open_discussion(tmp_path, ORDERS[order])
    assert one.ask("Go.") == "End."
    one.session.close()
    outcome = check(SessionViewer(one.log).events)
    assert outcome.difference is None, outcome.difference
    assert outcome.notes == ()
    assert outcome.requests == len(one.select_lines(event_type="llm_request"))
