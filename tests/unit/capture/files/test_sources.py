"""Discovery of history files."""

from __future__ import annotations

import os
from pathlib import Path

from harken.capture.files.sources import find_histories, iter_files, sort_for_import


def write(path: Path, data: bytes = b"{}\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_histories_are_discovered_in_default_folders(tmp_path: Path) -> None:
    write(tmp_path / ".claude/projects/-home-jill/a.jsonl")
    write(tmp_path / ".claude/projects/-home-jill/a/subagents/agent-b.jsonl")
    write(tmp_path / ".claude/projects/-home-jill/a/subagents/agent-b.meta.json")
    write(tmp_path / ".codex/sessions/2026/01/31/rollout-x.jsonl")
    write(tmp_path / ".gemini/tmp/abc/chats/session-1.json")
    write(tmp_path / ".gemini/tmp/abc/logs.json")
    write(tmp_path / ".pi/agent/sessions/--home--/x.jsonl")
    histories = {history.place.runtime: history for history in find_histories(tmp_path, {})}
    assert list(histories) == ["claude", "codex", "gemini", "pi"]
    assert [file.path.name for file in histories["claude"].files] == ["a.jsonl", "agent-b.jsonl"]
    assert [file.path.name for file in histories["gemini"].files] == ["session-1.json"]
    assert histories["claude"].size == 6


def test_environment_variables_override_folders(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/projects/x/a.jsonl")
    write(tmp_path / ".claude/projects/x/b.jsonl")
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere"), "CODEX_HOME": " "}
    (history,) = find_histories(tmp_path, environ)
    assert [file.path.name for file in history.files] == ["a.jsonl"]


def test_empty_home_has_no_sources(tmp_path: Path) -> None:
    assert find_histories(tmp_path, {}) == []
    assert list(iter_files(tmp_path / "not there")) == []


def test_folder_links_and_pipes_are_not_sources(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    (tmp_path / "round").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "not there")
    assert [file.path.name for file in iter_files(tmp_path)] == ["a.jsonl"]


def test_sources_are_sorted_oldest_first_subagents_last(tmp_path: Path) -> None:
    for index, name in enumerate(["agent-a.jsonl", "z.jsonl", "b.jsonl"]):
        os.utime(write(tmp_path / name), (index, index))
    files = sort_for_import(iter_files(tmp_path))
    assert [file.path.name for file in files] == ["z.jsonl", "b.jsonl", "agent-a.jsonl"]


def test_file_argument_is_its_own_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b"some words")
    (file,) = iter_files(path)
    assert (file.name, file.size, file.read_beginning(4)) == (str(path), 10, b"some")
    mark = file.compute_fingerprint()
    path.write_bytes(b"some words!")
    (grown,) = iter_files(path)
    assert grown.compute_fingerprint() != mark
