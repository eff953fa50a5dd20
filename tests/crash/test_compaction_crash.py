"""A crash during a compaction: the context is the one before it or the one after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.agents.compaction_text import format_summary_message
from harken.agents.turn.compaction import Compactor
from tests.agent_kit import call, call_message, check_log, run
from tests.session_kit import read_lines
from tests.unit.agents.compaction_kit import SUMMARY, Scene, begin, talk


def compactors(scene: Scene) -> list[str]:
    """Return the summarizing agents that have not ended."""
    session = scene.stage.session
    return [
        agent_state.id
        for agent_state in session.agents.values()
        if agent_state.spec.kind == Compactor._kind and session.state.is_live(agent_state.id)
    ]


def compacted(folder: Path, *, in_a_turn: bool) -> tuple[Scene, list[bytes], int]:
    """Return a compacted session, the lines of its log, and the start of the compaction."""
    looks = [call_message(call("look", f"c{n}", n=n)) for n in range(3)]
    scene = begin(folder, talk(main=[*looks, "done"]), window=1050 if in_a_turn else None)
    scene.ask("go")
    if not in_a_turn:
        run(scene.root.compact())
    scene.stage.session.close()
    log = scene.stage.log.read_bytes().splitlines(keepends=True)
    rows = read_lines(scene.stage.log)
    began = next(index for index, row in enumerate(rows) if row.get("name") == "compaction")
    return scene, log, began


@pytest.mark.req("S2-25", "S2-28", "D-03")
@pytest.mark.parametrize("in_a_turn", [False, True])
def test_resume_is_exact_after_a_cut_at_every_event_of_a_compaction(
    tmp_path: Path, in_a_turn: bool
) -> None:
    scene, log, began = compacted(tmp_path, in_a_turn=in_a_turn)
    committed_lines = log[: began + 14]
    outcomes_seen: set[bool] = set()
    before: object = None
    for end in range(began, len(committed_lines) + 1):
        resumed_scene = scene.resumed(talk(main=["fine"] * 9), b"".join(log[:end]))
        context = resumed_scene.context()
        stood = any(
            text.startswith(format_summary_message(SUMMARY, is_pending=in_a_turn))
            for _, text in context
        )
        outcomes_seen.add(stood)
        if not stood:
            before = before or context
            assert context == before, end
        assert compactors(resumed_scene) == [], end
        assert resumed_scene.is_exact(), end
        last = resumed_scene.resumed()
        with last.stage.session:
            assert last.ask(None if in_a_turn else "and?") in ("fine", "done"), end
        check_log(last.stage.log)
    assert outcomes_seen == {False, True}


@pytest.mark.req("S2-25", "D-03")
def test_commit_after_a_crash_has_the_agent_context_and_full_transcript(
    tmp_path: Path,
) -> None:
    scene, log, began = compacted(tmp_path, in_a_turn=False)
    full = [("system", "You are main."), ("user", "go")]
    for end in range(began, len(log) + 1):
        resumed_scene = scene.resumed(talk(main=["fine"] * 9), b"".join(log[:end]))
        resumed_scene.ask("and?")
        assert resumed_scene.kept() == resumed_scene.context(), end
        transcript_texts = resumed_scene.kept("root")
        assert transcript_texts[:2] == full
        assert transcript_texts[-2:] == [("user", "and?"), ("assistant", "fine")]
        assert [role for role, _ in transcript_texts].count("tool") == 3
        resumed_scene.stage.session.close()
