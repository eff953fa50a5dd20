"""The measuring of growing homes runs, and a home has what it is said to have."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from benchmarks.scale.cpu import CpuClock
from benchmarks.scale.home import ScaledHome
from benchmarks.scale.operations import WHOLE, measure, measure_calls, run_harken
from benchmarks.scale.results import (
    fit_exponent,
    list_operations,
    read_results,
    table_lines,
)
from benchmarks.scale.servers import run_servers

SESSIONS = 12


@pytest.fixture
def home(tmp_path: Path) -> ScaledHome:
    home = ScaledHome(tmp_path / "home", shape="call")
    home.grow(5)
    home.grow(SESSIONS)
    return home


def test_a_home_has_the_rows_that_it_counts(home: ScaledHome) -> None:
    growth = ScaledHome(home.folder, shape="call").growth
    assert (growth.sessions, growth.commits, growth.messages) == (12, 12, 48)
    with closing(home.open_store()) as store:
        objects = store.stats().objects
    assert (objects["commit"], objects["delta"]) == (12, 12)
    with closing(home.open_index()) as index:
        for table, rows in (("sessions", 12), ("commits", 12), ("messages", 48)):
            assert index.database.execute(f"SELECT count(*) FROM {table}").fetchall() == [(rows,)]
    assert len(run_harken(home, ["sessions"]).splitlines()) == 12


def test_calls_are_measured_with_what_they_return(home: ScaledHome) -> None:
    samples = home.sample_sessions()
    assert len({sample.tip for sample in samples}) == SESSIONS
    with closing(home.open_store()) as store:
        for sample in samples:
            assert store.commits_by_label(sample.label) == {sample.label: [sample.tip]}
    costs = measure_calls(home, CpuClock())
    assert {"commit", "history", "materialize", "resolve a label"} < {*costs}
    assert all(cost.cpu_ms > 0 and cost.wall_ms > 0 for cost in costs.values())
    with closing(home.open_store()) as store:  # Each sample got one commit more.
        assert store.stats().objects["commit"] == 2 * SESSIONS + 1


@pytest.mark.full
def test_a_store_on_servers_is_measured_with_their_time(tmp_path: Path) -> None:
    with run_servers() as servers:
        home = ScaledHome(tmp_path / "home", shape="call", url=servers.url)
        home.grow(3)
        clock = CpuClock(servers.processes)
        assert measure_calls(home, clock)["commit"].wall_ms > 0
        [label] = {sample.label for sample in home.sample_sessions()} & {"reviewed-2"}
        assert run_harken(home, ["ctx", "resolve", label]).startswith("ctx-")
        cost = clock.measure([lambda: run_harken(home, ["store", "fsck"])])
        assert 0 < cost.server_ms < cost.cpu_ms


@pytest.mark.full
def test_all_operations_are_measured(home: ScaledHome) -> None:
    measurement = measure(home, "sqlite", runs=1)
    assert {*WHOLE, "sessions", "ui: first page", "search COMMON"} < {*measurement.costs}
    assert measurement.write_us is not None
    assert measurement.size_bytes > 10_000


def test_an_exponent_is_that_of_the_growth() -> None:
    sizes = [30, 100, 300]
    assert fit_exponent(sizes, [7, 7, 7]) == pytest.approx(0)
    assert fit_exponent(sizes, [0.03 * n**1.5 for n in sizes]) == pytest.approx(1.5)


def test_results_are_read_by_kind_and_the_last_of_equal_sizes_counts(tmp_path: Path) -> None:
    kinds = read_results()
    assert {"sqlite, full sessions", "postgresql, full sessions"} <= {*kinds}
    for measurements in kinds.values():
        assert [m.sessions for m in measurements] == sorted({m.sessions for m in measurements})
        table = "\n".join(table_lines(measurements))
        assert all(f"| {name} |" in table for name in list_operations(measurements[:1]))
    first = kinds["sqlite, full sessions"][0]
    later = msgspec.structs.replace(first, size_bytes=1)
    file = tmp_path / "results.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, (first, later))))
    assert read_results(file) == {"sqlite, full sessions": [later]}
