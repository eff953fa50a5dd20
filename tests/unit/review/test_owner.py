"""The owner of a start: a home, and none of its copies."""

from __future__ import annotations

import shutil
from pathlib import Path

from harken.config.home import Home as HomeFolder
from harken.store.memory import MemoryStore
from harken.tickets.change import TicketChange
from tests.unit.review.agents_kit import Clock, Home


def test_a_copy_of_a_home_does_not_run_its_starts(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    owner = HomeFolder(str(folder)).load_owner_id()
    assert HomeFolder(str(folder)).load_owner_id() == owner
    shutil.copytree(folder, tmp_path / "copy")
    copied = HomeFolder(str(tmp_path / "copy")).load_owner_id()
    assert copied != owner
    folder.rename(tmp_path / "renamed")
    assert HomeFolder(str(tmp_path / "renamed")).load_owner_id() == owner

    home = Home(MemoryStore(), Clock(), owner=owner)
    parent = home.clock.open_tickets(home.store, "ann").create("Rewrite the parser").id
    change = TicketChange(type="review_finding", parent=parent)
    finding = home.clock.open_tickets(home.store, "rita", "ctx-1").create("It drops", change).id
    home.clock.open_tickets(home.store, "ann").note(finding, "what do you mean?")
    ledger = home.start_runner().ledger
    assert ledger.record(ledger.read().due[0]) is not None
    assert Home(home.store, home.clock, owner=copied).start_runner().run_all() == 0
    assert home.start_runner().run_all() == 1
