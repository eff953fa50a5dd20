"""A process that dies around a compaction: the context is as it was before, or as it is after."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.agents.compaction_text import format_summary_message
from harken.agents.turn.compaction import Compactor
from tests.agent_kit import call, call_message, check_log, run
from tests.session_kit import read_lines
from tests.unit.agents.compacting import SUMMARY, Scene, begin, talk


def compactors(scene: Scene) -> list[str]:
    """Those who sum up and have not ended."""
    session = scene.stage.session
    return [
        one.id
        for one in session.agents.values()
        if one.spec.get("kind") == Compactor._kind and session.state.is_live(one.id)
    ]


def compacted(folder: Path, *, in_a_turn: bool) -> tuple[Scene, list[bytes], int]:
    """Return a scene that was compacted, the lines of its log, and where the compaction began."""
    looks = [call_message(call("look", f"c{n}", n=n)) for n in range(3)]
    scene = begin(folder, talk(main=[*looks, "done"]), window=1050 if in_a_turn else None)
    scene.ask("go")
    if not in_a_turn:
        run(scene.root.compact())
    scene.stage.session.close()
    log = scene.stage.log.read_bytes().splitlines(keepends=True)
    rows = read_lines(scene.stage.log)
    began = next(at for at, row in enumerate(rows) if row.get("name") == "compaction")
    return scene, log, began


@pytest.mark.req("S2-25", "S2-28", "D-03")
@pytest.mark.parametrize("in_a_turn", [False, True])
def test_cut_at_every_event_of_a_compaction_a_resume_is_exact(
    tmp_path: Path, in_a_turn: bool
) -> None:
    scene, log, began = compacted(tmp_path, in_a_turn=in_a_turn)
    whole = log[: began + 14]
    seen: set[bool] = set()
    before: object = None
    for end in range(began, len(whole) + 1):
        again = scene.resumed(talk(main=["fine"] * 9), b"".join(log[:end]))
        context = again.context()
        stood = any(
            text.startswith(format_summary_message(SUMMARY, is_pending=in_a_turn))
            for _, text in context
        )
        seen.add(stood)
        if not stood:
            before = before or context
            assert context == before, end
        assert compactors(again) == [], end
        assert again.is_exact(), end
        last = again.resumed()
        with last.stage.session:
            assert last.ask(None if in_a_turn else "and?") in ("fine", "done"), end
        check_log(last.stage.log)
    assert seen == {False, True}


@pytest.mark.req("S2-25", "D-03")
def test_what_is_committed_after_a_crash_is_what_the_agent_reads_and_in_full_what_it_heard(
    tmp_path: Path,
) -> None:
    scene, log, began = compacted(tmp_path, in_a_turn=False)
    full = [("system", "You are main."), ("user", "go")]
    for end in range(began, len(log) + 1):
        again = scene.resumed(talk(main=["fine"] * 9), b"".join(log[:end]))
        again.ask("and?")
        assert again.kept() == again.context(), end
        told = again.kept("root")
        assert told[:2] == full
        assert told[-2:] == [("user", "and?"), ("assistant", "fine")]
        assert [role for role, _ in told].count("tool") == 3
        again.stage.session.close()
