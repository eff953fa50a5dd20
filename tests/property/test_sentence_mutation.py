"""All sentences that Harken writes are reworded between a crash and the resume.

The only test that changes constants of a module: that they may change is what it shows. It does so
in a process of its own, which compiles `harken.agents.texts` with other words before it imports
anything of Harken; nothing is patched in this process.

A scripted session is cut after each group of events. Each cut is resumed with the same sentences
and with others. The model calls, the results, the agents and the links of all entries must be the
same; only texts may differ.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harken.agents import texts
from harken.session.log.checksum import has_more
from harken.world.result import error_result
from tests.property.reworded_scene import play
from tests.property.reworded_texts import reword, reword_constants
from tests.session_kit import read_lines

ROOT = Path(__file__).parents[2]
REWORD = "from tests.property.reworded_texts import install; install(); "
PROGRAM = "from tests.property.reworded_scene import print_resumes; print_resumes()"

SENTENCES = (
    texts.INTERRUPTED,
    f"Error: {texts.ACTION_BLOCKED}",
    texts.TASK_RESULT,
    texts.CUT_OFF,
    texts.VERDICT_REQUEST,
    texts.KEPT,
    texts.NOTE,
    texts.HOOK_MESSAGE,
    texts.HOOK_MESSAGE.format("{}", texts.RESPONSE_BLOCKED),
)
"""Sentences in the log of the session."""


def find_cuts(log: Path) -> dict[str, bytes]:
    """Return the log up to the end of each group, by the name of its last event."""
    lines = log.read_bytes().splitlines(keepends=True)
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    cuts = {}
    for number, (line, event) in enumerate(zip(lines, read_lines(log), strict=True), 1):
        agent_id = event.get("agent_id", "")
        if event["event_type"] == "agent_created":
            twins = sum(name.partition(" ")[0] == event["name"] for name in names.values())
            names[agent_id] = f"{event['name']} ({twins + 1})" if twins else event["name"]
        label = f"{names.get(agent_id, '')} {event.get('role') or event['event_type']}".strip()
        counts[label] += 1
        if names and not has_more(line):
            cuts[f"{label} {counts[label]}"] = b"".join(lines[:number])
    return cuts


def resume_all(folder: Path, cuts: dict[str, bytes], program: str) -> tuple[list[Any], str]:
    """Resume each cut in a process that runs a program. Return the reports, and a sentence."""
    folder.mkdir()
    for number, content in enumerate(cuts.values()):
        (folder / f"{number}.jsonl").write_bytes(content)
    command = [sys.executable, "-c", program, str(folder)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    output = json.loads(result.stdout)
    return [output["reports"][str(number)] for number in range(len(cuts))], output["sentence"]


@pytest.mark.req("S0-32", "S4-04")
def test_a_resume_with_other_sentences_does_the_same(tmp_path: Path) -> None:
    cuts = find_cuts(play(tmp_path))
    assert len(cuts) >= 113
    reports, sentence = resume_all(tmp_path / "same", cuts, PROGRAM)
    reworded_reports, other_sentence = resume_all(tmp_path / "reworded", cuts, REWORD + PROGRAM)
    assert (sentence, other_sentence) == (texts.INTERRUPTED, reword(texts.INTERRUPTED))
    reports_by_cut = zip(cuts, reports, reworded_reports, strict=True)
    failures = [label for label, report, other in reports_by_cut if report != other]
    assert failures == []


@pytest.mark.parametrize("template", SENTENCES)
def test_the_session_has_the_sentence(tmp_path: Path, template: str) -> None:
    parts = map(re.escape, template.split("{}"))
    pattern = re.compile(".*".join(parts), re.DOTALL)
    contents = [line.get("content") or "" for line in read_lines(play(tmp_path))]
    assert any(pattern.fullmatch(content) for content in contents)


def test_every_sentence_is_reworded() -> None:
    source = (ROOT / "src" / "harken" / "agents" / "texts.py").read_text()
    _, originals = reword_constants(source)
    sentences = {name: text for name, text in vars(texts).items() if name.isupper()}
    assert originals == sentences
    assert all(reword(text) != text for text in sentences.values())


def test_the_reason_of_an_error_has_no_prefix_that_code_would_have_to_remove() -> None:
    """A reworded reason stands once behind the prefix, in the result and in the exception."""
    reasons = (texts.ACTION_BLOCKED, texts.TAKEN_OVER, texts.STOPPED)
    for reason in (*reasons, *map(reword, reasons)):
        result = error_result(reason, closed="denied")
        assert (result.content, result.is_error, result.closed) == (
            f"Error: {reason}",
            True,
            "denied",
        )
        assert not reason.startswith("Error: ")
