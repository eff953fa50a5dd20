"""A client is run in isolation on a session, and its request is compared with the context."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from harken.capture.resume.clients import RUNTIMES, get_client
from harken.capture.resume.verify import ClientRun, VerifyResult, verify
from harken.core.messages import Message
from harken.errors import ConfigError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, RuntimeFormat
from harken.formats.runtimes.registry import find_runtime_format
from tests.toy_clients import Manner, install
from tests.unit.capture.conversation_kit import cafe, call, new

Verify = Callable[..., VerifyResult]
OWN = {
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "TERM",
    "HTTPS_PROXY",
    "NO_PROXY",
    "HARKEN_COMMAND",
    "LC_CTYPE",
}


def native(runtime: str) -> RuntimeFormat:
    runtime_format = find_runtime_format(runtime)
    assert runtime_format is not None
    return runtime_format


@pytest.fixture
def tried(tmp_path: Path) -> Verify:
    """Verify a conversation with a toy client of the given behavior."""

    def run(
        runtime: str,
        manner: Manner = "faithful",
        entries: Sequence[ConversationEntry] | None = None,
        kind: RuntimeFormat | None = None,
        timeout_s: float = 30.0,
    ) -> VerifyResult:
        programs = install(tmp_path / "bin", runtime, manner)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        trial = ClientRun(folder=tmp_path / "trial", path=path, timeout_s=timeout_s)
        trial.folder.mkdir()
        session = new(str(trial.work))
        return verify(
            get_client(runtime),
            kind or native(runtime),
            cafe() if entries is None else entries,
            session,
            trial,
        )

    return run


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_client_that_sends_the_materialized_context_passes(tried: Verify, runtime: str) -> None:
    result = tried(runtime)
    assert result.is_same, (result.completeness, result.comparison.differences)
    assert len(result.comparison.rows) >= 6
    assert [allowed.name for allowed in result.completeness.allowed] == ["thinking"]


def test_message_dropped_by_the_client_is_missing(tried: Verify) -> None:
    result = tried("gemini", "forgetful")
    (row,) = result.comparison.differences
    assert (row.state, row.number) == ("missing", 2)
    assert "I look." in row.text
    assert not result.is_same


def test_message_added_by_the_client_is_reported(tried: Verify) -> None:
    (row,) = tried("claude", "wordy").comparison.differences
    assert (row.state, row.text) == ("added", "By the way, it rains.")


def test_message_missing_from_the_file_is_lost(tried: Verify) -> None:
    """The client sends the complete file, so only the materialized context shows the loss."""
    runtime = native("claude")

    def forgetting(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
        assert runtime.writes is not None
        return runtime.writes([*entries[:3], *entries[5:]], session)

    result = tried("claude", kind=msgspec.structs.replace(runtime, writes=forgetting))
    assert result.comparison.differences == []
    assert [(message.place, message.text) for message in result.lost] == [
        (3, "Yes, it is open."),
        (4, "And do they have tea?"),
    ]
    assert not result.is_same


def test_reordered_message_is_told_from_a_lost_one(tried: Verify) -> None:
    result = tried("pi", "confused")
    assert result.lost == []
    assert [missing.text for missing in result.completeness.reordered] in (
        ["They do."],
        ["Yes, it is open."],
    )
    assert not result.is_same


def test_text_that_the_client_shortens_is_omitted_and_not_lost(tried: Verify) -> None:
    output = f"begin {'x' * 20_000} end"
    entries = [msgspec.structs.replace(entry) for entry in cafe()]
    entries[2] = ConversationEntry(Message("tool", output, tool_call_id="c.1"))
    result = tried("codex", entries=entries)
    assert [(missing.place, missing.text) for missing in result.omitted] == [(2, output)]
    assert (result.lost, result.is_same) == ([], True)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_aborted_answer_with_calls_is_no_false_alarm(tried: Verify, runtime: str) -> None:
    """A regression: its calls were counted, so the results of all later calls seemed lost."""
    aborted = ConversationEntry(
        Message("assistant", "I lo", [call("c.0", arguments='{"where":"outside"}')]),
        source={"kind": "error"},
    )
    conversation = cafe()
    result = tried(runtime, entries=[conversation[0], aborted, *conversation[1:]])
    assert result.is_same, (result.completeness, result.comparison.differences)
    assert "errors" in [allowed.name for allowed in result.completeness.allowed]


def test_client_that_sends_no_request_gives_a_reason(tried: Verify) -> None:
    with pytest.raises(ConfigError, match="Codex ended with 1 and did not ask.*I do not hear you"):
        tried("codex", "deaf")


def test_client_that_times_out_is_terminated(tried: Verify, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Claude Code took more than 1 s.*it said nothing"):
        tried("claude", "slow", timeout_s=1)
    assert (tmp_path / "trial" / "home" / "called.json").exists()


def test_runtime_without_a_session_writer_is_refused(tried: Verify) -> None:
    with pytest.raises(ConfigError, match="sessions of Claude Code cannot be written"):
        tried("claude", kind=msgspec.structs.replace(native("claude"), writes=None))


def test_irregular_conversation_can_be_verified(tried: Verify) -> None:
    unusual = [
        Message("assistant", "Nobody asked."),
        Message("tool", "A result of nobody.", tool_call_id="x"),
        Message("system", "Be kind."),
        Message("user", "\ud800\0 odd"),
    ]
    result = tried("claude", entries=[ConversationEntry(message) for message in unusual])
    assert result.is_same, (result.completeness, result.comparison.differences)
