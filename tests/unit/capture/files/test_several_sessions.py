"""A file with several sessions: each has its own commits, tips, times, outcome and scores."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harken.capture.files.imported_sessions import list_imported_sessions
from harken.capture.files.importer import Importer
from harken.capture.files.restore import restore_catalogue
from harken.capture.files.sources import iter_files
from harken.index.catalogue import Catalogue
from harken.index.report_sessions import split_report
from tests.unit.formats.runtimes.research.reading_kit import MemoryHome
from tests.unit.formats.runtimes.research.samples import (
    encode,
    inspect_log,
    inspect_sample,
    tau_results,
    tau_simulation,
)

LOG = encode(inspect_log(inspect_sample(1), inspect_sample(2, error={"message": "Oh"})))


def test_each_session_is_listed_with_its_own_tips(tmp_path: Path) -> None:
    home = MemoryHome()
    report = home.add(tmp_path / "a.json", LOG)
    sessions = {session.name: session for session in list_imported_sessions(home.catalogue)}
    assert set(sessions) == {"inspect:sample-run-1", "inspect:sample-run-2"}
    for name, session in sessions.items():
        own = [tip for tip in report.tips if f"inspect:{tip.session}" == name]
        assert [(tip.agent, tip.ctx) for tip in session.branch_tips] == [
            (tip.agent, tip.ctx) for tip in own
        ]
        assert [tip.agent for tip in own] == ["main", "grader"]
    assert sessions["inspect:sample-run-2"].title == "Door 2?"


def test_commits_name_their_session(tmp_path: Path) -> None:
    home = MemoryHome()
    home.add(tmp_path / "a.json", LOG)
    commits = home.store.commits(home.store.newest_commits(limit=100)).values()
    names = {stored.commit.session_id for stored in commits}
    assert names == {"inspect:sample-run-1", "inspect:sample-run-2"}


def test_outcome_and_times_are_those_of_the_session(tmp_path: Path) -> None:
    home = MemoryHome()
    first = tau_simulation(1)
    second = tau_simulation(2, termination_reason="max_steps", end_time=None)
    for message in second["messages"]:
        message.pop("timestamp", None)  # It gets no time of the session before it.
    home.add(tmp_path / "a.json", encode(tau_results(first, second)))
    rows = home.query("SELECT native, outcome, began IS NULL OR began = 0 FROM sessions ORDER BY 1")
    assert rows == [("sim-1", "user_stop", 0), ("sim-2", "max_steps", 1)]
    query = "SELECT max(time) > 0 FROM commits GROUP BY session_id ORDER BY session_id"
    assert home.query(query) == [(1,), (0,)]


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    home, path = MemoryHome(), tmp_path / "a.json"
    first = home.add(path, LOG)
    [again] = Importer(home.store, home.catalogue).run(list(iter_files(path)))
    assert again.is_unchanged
    assert again.report == first


def test_a_restored_catalogue_lists_the_same_sessions(tmp_path: Path) -> None:
    home = MemoryHome()
    home.add(tmp_path / "a.json", LOG)
    restored = Catalogue(None)
    assert restore_catalogue(home.store, restored) == 1
    assert list_imported_sessions(restored) == list_imported_sessions(home.catalogue)


class _Tip(msgspec.Struct, frozen=True):
    session: str


class _Part(msgspec.Struct, frozen=True):
    session: str
    title: str = ""


class _Report(msgspec.Struct, frozen=True):
    session: str = ""
    title: str = ""
    source: str = "file"
    tips: tuple[_Tip, ...] = ()
    sessions: tuple[_Part, ...] = ()


def test_a_report_is_split_by_session() -> None:
    single = _Report(session="a", tips=(_Tip(""),))
    assert split_report(single) == [single]
    several = _Report(
        tips=(_Tip("a"), _Tip("b"), _Tip("a")), sessions=(_Part("a", "A"), _Part("b"), _Part("c"))
    )
    assert split_report(several) == [
        _Report("a", "A", tips=(_Tip("a"), _Tip("a"))),
        _Report("b", tips=(_Tip("b"),)),
        _Report("c"),
    ]
