"""Each line of a generated history leads to its message, and no line of a person is claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from harken.attribution.attribution import Attribution
from harken.attribution.git.repository import GitRepository
from harken.attribution.records.edit_index import EditIndex
from harken.attribution.records.edit_ingest import update_edits
from harken.cli.main import run_cli
from harken.index.session_index import SessionIndex
from harken.store.sqlite.store import SqliteStore
from tests.attribution.evaluation import Score, ask_for_files, ask_for_single_lines
from tests.attribution.history import History
from tests.attribution.transcripts import ClaudeAgent, CodexAgent, HarkenAgent

MIN_RECALL, MIN_SAMPLE_RECALL = 0.95, 0.9
"""A sample of single lines is small, so its recall varies more."""
SHORT, LONG = 60, 220
"""Commits of a history."""
Table = Callable[..., None]


@contextmanager
def attribution_of(history: History, folder: Path) -> Iterator[Attribution]:
    """Import the transcripts of a history, and attribute its repository."""
    for agent in history.agents:
        if isinstance(agent, ClaudeAgent | CodexAgent):
            agent.save(folder / "projects")
    home = folder / "home"
    assert run_cli(["import", str(folder / "projects"), "--home", str(home), "--no-index"], {}) == 0
    with (
        closing(SqliteStore(home / "store.db")) as store,
        closing(EditIndex(home / "edits.db")) as index,
        closing(SessionIndex(None)) as facts,
        closing(GitRepository(history.folder)) as repository,
    ):
        for agent in history.agents:
            if isinstance(agent, HarkenAgent):
                agent.save(store)
        update_edits(index, store)
        yield Attribution(repository, index, facts, store)


def check(
    score: Score, seed: int, table: Table, title: str, min_recall: float = MIN_RECALL
) -> None:
    """Check the counts of a history, and record them in the table that is printed at the end."""
    table(
        title,
        f"seed {seed:>3}",
        agent_lines=score.agent_lines,
        right=score.right,
        uncertain=score.uncertain,
        missed=score.missed,
        wrong=len(score.wrong),
        person_lines=score.person_lines,
        claimed=len(score.claimed),
        recall_per_mille=round(1000 * score.recall),
    )
    assert score.wrong == []
    assert score.claimed == []
    assert score.recall >= min_recall, score.misses


@pytest.mark.parametrize("seed", [2])
def test_each_line_leads_to_its_message(seed: int, tmp_path: Path, table: Table) -> None:
    history = History(tmp_path / "repository", seed)
    history.build(SHORT)
    with attribution_of(history, tmp_path) as attribution:
        check(ask_for_files(history, attribution), seed, table, "attribution: 60 commits")
        single = ask_for_single_lines(history, attribution, step=9)
        title = "attribution: 60 commits, every ninth line alone"
        check(single, seed, table, title, MIN_SAMPLE_RECALL)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 108))
def test_each_line_of_a_long_history_leads_to_its_message(
    seed: int, tmp_path: Path, table: Table
) -> None:
    history = History(tmp_path / "repository", seed)
    history.build(LONG)
    with attribution_of(history, tmp_path) as attribution:
        check(ask_for_files(history, attribution), seed, table, "attribution: 220 commits")
        single = ask_for_single_lines(history, attribution, step=23)
        title = "attribution: 220 commits, every 23rd line alone"
        check(single, seed, table, title, MIN_SAMPLE_RECALL)
