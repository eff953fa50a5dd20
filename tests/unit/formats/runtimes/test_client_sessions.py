"""The session of another runtime that a log records."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.formats.runtimes.client_sessions import identify_session, read_recorded_session
from harken.formats.runtimes.registry import list_runtime_formats
from harken.session.branch import branch
from harken.session.session import Session
from tests.session_kit import create_agent, new_session


def recorded_session(folder: Path, program: str = "claude-code", session: str = "0f1e") -> Session:
    log = new_session(folder)
    spec = AgentSpec(foreign=ForeignAgent(program, None, session or None))
    log.log_agent_created(log.allocate_agent_id(), None, "main", "m", spec=spec)
    return log


def test_a_recording_has_the_name_of_the_session_file(tmp_path: Path) -> None:
    with recorded_session(tmp_path) as session:
        recorded = read_recorded_session(session.path)
    assert recorded is not None
    assert (recorded.runtime, recorded.native, recorded.name) == ("claude", "0f1e", "claude:0f1e")


@pytest.mark.parametrize(
    ("program", "session"), [("openai-sdk", "0f1e"), ("claude-code", ""), ("claude", "0f1e")]
)
def test_a_program_without_session_files_and_a_session_without_a_name_have_none(
    tmp_path: Path, program: str, session: str
) -> None:
    with recorded_session(tmp_path, program, session) as log:
        assert read_recorded_session(log.path) is None


def test_a_session_of_harken_has_none(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        assert read_recorded_session(session.path) is None


def test_a_branch_has_none(tmp_path: Path) -> None:
    with recorded_session(tmp_path) as session:
        path = session.path
    assert read_recorded_session(branch(path, tmp_path / "mine.jsonl").path) is None


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff\n", b'{"event_type":"agent_created"}\n', b"[]\n"]
)
def test_a_file_that_is_no_log_has_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "s.jsonl").write_bytes(data)
    assert read_recorded_session(tmp_path / "s.jsonl") is None
    assert read_recorded_session(tmp_path / "missing.jsonl") is None


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini-cli", "opencode", "pi"])
def test_each_client_is_a_runtime_with_a_format(client: str) -> None:
    session = identify_session(client, "0f1e")
    assert session is not None
    assert session.runtime in {native.runtime for native in list_runtime_formats()}
