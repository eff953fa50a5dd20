"""Of the research data at hand, each message, score and label is counted once, as the files have it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.capture.files.importer import Importer
from harken.capture.files.report import Report
from harken.capture.files.sources import iter_files
from harken.index.catalogue import Catalogue
from harken.index.session_index import SessionIndex
from harken.store.memory import MemoryStore
from tests.acceptance.shared_data import DATA, needed

FOLDER = DATA / "transcripts" / "multi-agent"
pytestmark = needed


class _Home:
    """An index of all files of the folder."""

    def __init__(self) -> None:
        store, catalogue = MemoryStore(), Catalogue(None)
        results = Importer(store, catalogue).run(list(iter_files(FOLDER)))
        self.reports: dict[Path, Report] = {
            Path(result.report.source): result.report for result in results
        }
        self.index = SessionIndex(None)
        self.index.update(store, catalogue)

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.index.database.execute(sql, values).fetchall()

    def read_files(self, format: str) -> Iterator[tuple[Path, bytes]]:
        for path, report in self.reports.items():
            if report.format == format:
                yield path, path.read_bytes()


@pytest.fixture(scope="module")
def home() -> _Home:
    return _Home()


def _counted(home: _Home, path: Path) -> Counter[str]:
    """Return the number of messages of a file that are no repeats, by role."""
    rows = home.query(
        "SELECT role, count(*) FROM messages m JOIN sessions s ON s.id = m.session_id "
        "WHERE source = ? AND NOT is_repeat GROUP BY role",
        str(path),
    )
    return Counter(dict(rows))


def test_every_file_is_read_or_refused_with_a_reason(home: _Home) -> None:
    refused = {path.name: report.reason for path, report in home.reports.items() if report.reason}
    voice = refused.pop("49b22f0c-4a56-41c5-922f-bc2a56e53a23.json")
    assert voice.endswith("its ticks have audio, and no messages")
    assert set(refused.values()) == {"unknown format"}
    assert set(refused) == {
        "PhaseConfig.json",
        "RoleConfig.json",
        "RGB_Color_Picker.prompt",
        "notable_caps.json",
    }
    assert all(not report.bad_lines for report in home.reports.values())


def test_messages_of_group_chats_count_once(home: _Home) -> None:
    for path, data in home.read_files("who-and-when-v1"):
        document = json.loads(data)
        people = sum(message["role"] == "human" for message in document["history"])
        prompts = sum(map(bool, document.get("system_prompt", {}).values()))
        counts = _counted(home, path)
        assert counts["assistant"] == len(document["history"]) - people, path
        assert (counts["user"], counts["system"]) == (people, prompts), path


def test_each_mistake_is_a_label_of_the_message_that_the_file_names(home: _Home) -> None:
    query = (
        "SELECT agents.name, messages.characters, labels.explanation FROM labels "
        "JOIN sessions ON sessions.id = labels.session_id "
        "JOIN agents ON agents.id = labels.agent_id "
        "LEFT JOIN messages ON messages.id = message_id WHERE source = ?"
    )
    for path, data in home.read_files("who-and-when-v1"):
        document = json.loads(data)
        [(agent, characters, explanation)] = home.query(query, str(path))
        mistake = document["history"][int(document["mistake_step"])]
        assert agent.lower() == document["mistake_agent"].lower()
        assert (characters, explanation) == (len(mistake["content"]), document["mistake_reason"])


def test_usage_and_scores_of_samples_are_those_of_the_log(home: _Home) -> None:
    for path, data in home.read_files("inspect-ai-v2"):
        for sample in json.loads(data)["samples"]:
            query = (
                "SELECT sum(input_tokens + ifnull(cache_read_tokens, 0)), sum(output_tokens) "
                "FROM requests WHERE session_id = ?"
            )
            rows = home.query("SELECT id, native FROM sessions WHERE source = ?", str(path))
            [session] = [id_ for id_, name in rows if len(rows) == 1 or name == sample.get("uuid")]
            usage = [*sample["model_usage"].values()]
            assert home.query(query, session) == [
                (
                    sum(counts["input_tokens"] for counts in usage),
                    sum(counts["output_tokens"] for counts in usage),
                )
            ]
            rows = home.query("SELECT scorer, value FROM scores WHERE session_id = ?", session)
            assert {name: json.loads(value) for name, value in rows} == {
                name: score["value"] for name, score in sample["scores"].items()
            }


def test_trajectories_count_their_messages_and_totals(home: _Home) -> None:
    for path, data in home.read_files("swe-agent-v1"):
        document = json.loads(data)
        answers = sum(message["role"] == "assistant" for message in document["history"])
        counts = _counted(home, path)
        assert counts["assistant"] == max(answers, len(document["trajectory"]))
        others = len(document["history"]) - answers
        extra = max(len(document["trajectory"]) - answers - 1, 0)
        assert sum(counts.values()) - counts["assistant"] == others + extra
        query = (
            "SELECT ifnull(sum(input_tokens), 0), ifnull(sum(output_tokens), 0) FROM requests r "
            "JOIN sessions s ON s.id = r.session_id WHERE source = ?"
        )
        totals = document["info"]["model_stats"]
        assert home.query(query, str(path)) == [(totals["tokens_sent"], totals["tokens_received"])]


def test_logs_of_roles_count_their_messages_and_usage(home: _Home) -> None:
    for path, data in home.read_files("chatdev-v1"):
        text = data.decode()
        spoken = re.findall(
            r"(?m)^\[[^]]*\] ([A-Z][\w ]+): (?:\*\*(?!\[(?:RolePlaying|chatting))|<INFO>)", text
        )
        received = re.findall(
            r"Receive\]\*\*\nprompt_tokens: (\d+)\ncompletion_tokens: (\d+)", text
        )
        assert _counted(home, path)["assistant"] == len(spoken)
        query = (
            "SELECT sum(input_tokens), sum(output_tokens) FROM requests r "
            "JOIN sessions s ON s.id = r.session_id WHERE source = ?"
        )
        assert home.query(query, str(path)) == [
            (sum(int(given) for given, _ in received), sum(int(made) for _, made in received))
        ]
