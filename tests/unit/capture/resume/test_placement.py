"""A session is written to the folder of its client and replaces no file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from harken.capture.resume.clients import create_session_id, get_client
from harken.capture.resume.placement import ClientHome, PlacedSession, place_session
from harken.capture.resume.session_folders import claude_name, gemini_name
from harken.errors import ConfigError
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.registry import find_runtime_format
from tests.toy_clients import install
from tests.unit.capture.conversation_kit import ID, cafe, new

HOURS = "2026-01-31T12-00-00"


@pytest.fixture
def client_home(tmp_path: Path) -> ClientHome:
    return ClientHome(home=tmp_path / "jill", environ={})


def put(
    client_home: ClientHome, runtime: str, session: NewSessionInfo | None = None
) -> PlacedSession:
    native = find_runtime_format(runtime)
    assert native is not None
    assert native.writes is not None
    session = session or new()
    return place_session(
        get_client(runtime), native, native.writes(cafe(), session), session, client_home
    )


@pytest.mark.parametrize(
    ("runtime", "path"),
    [
        ("claude", f".claude/projects/-home-jill-cafe/{ID}.jsonl"),
        ("codex", f".codex/sessions/2026/01/31/rollout-{HOURS}-{ID}.jsonl"),
        ("gemini", f".gemini/tmp/cafe/chats/session-2026-01-31T12-00-{ID[:8]}.jsonl"),
        ("pi", f".pi/agent/sessions/--home-jill-cafe--/{HOURS}-000000Z_{ID}.jsonl"),
    ],
)
def test_file_is_written_where_its_client_reads_it_owner_only(
    client_home: ClientHome, runtime: str, path: str
) -> None:
    placement = put(client_home, runtime)
    assert placement.file == client_home.home / path
    assert placement.file.stat().st_mode & 0o777 == 0o600
    assert placement.session in (ID, str(placement.file))
    before = placement.file.read_bytes()
    with pytest.raises(ConfigError, match="cannot be put there .*nothing was overwritten"):
        put(client_home, runtime)
    assert placement.file.read_bytes() == before


@pytest.mark.parametrize(
    ("runtime", "variable", "below"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", "projects"),
        ("codex", "CODEX_HOME", "sessions"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/tmp"),
        ("pi", "PI_CODING_AGENT_DIR", "sessions"),
        ("pi", "PI_CODING_AGENT_SESSION_DIR", "."),
    ],
)
def test_environment_folder_is_respected(
    client_home: ClientHome, tmp_path: Path, runtime: str, variable: str, below: str
) -> None:
    named_folder = tmp_path / "elsewhere"
    placement = put(
        msgspec.structs.replace(client_home, environ={variable: str(named_folder)}), runtime
    )
    assert placement.file is not None
    assert placement.file.is_relative_to(named_folder / below)
    assert not client_home.home.exists()


def test_tilde_in_the_environment_is_expanded(client_home: ClientHome) -> None:
    placement = put(
        msgspec.structs.replace(client_home, environ={"CODEX_HOME": "~/codex"}), "codex"
    )
    assert placement.file is not None
    assert placement.file.is_relative_to(client_home.home / "codex")


def test_opencode_imports_the_session_itself(client_home: ClientHome, tmp_path: Path) -> None:
    folder = tmp_path / "cafe"
    folder.mkdir()
    client_home.home.mkdir()
    environ = {"PATH": str(install(tmp_path / "bin", "opencode")), "HOME": str(client_home.home)}
    placement = put(
        msgspec.structs.replace(client_home, environ=environ), "opencode", new(str(folder))
    )
    assert placement.file is None
    assert placement.session.startswith("ses_")
    assert (client_home.home / f".local/share/opencode/{placement.session}.json").exists()
    call_record = json.loads((client_home.home / "called.json").read_text())
    assert call_record["folder"] == str(folder)
    assert not Path(call_record["words"][1]).exists()


def test_opencode_import_error_is_reported(client_home: ClientHome, tmp_path: Path) -> None:
    program = tmp_path / "opencode"
    program.write_text("#!/bin/sh\necho 'Bad\nsession' >&2; exit 4\n")
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}{os.pathsep}{os.defpath}"}
    with pytest.raises(ConfigError, match="OpenCode does not import the session: Bad session$"):
        put(msgspec.structs.replace(client_home, environ=environ), "opencode", new(str(tmp_path)))
    with pytest.raises(ConfigError, match="No such file"):
        put(
            msgspec.structs.replace(client_home, environ={"PATH": "/nowhere"}),
            "opencode",
            new(str(tmp_path)),
        )


def test_unwritable_folder_is_an_error_on_one_line(client_home: ClientHome) -> None:
    client_home.home.mkdir()
    (client_home.home / ".claude").write_text("a file")
    with pytest.raises(ConfigError, match=r"\.claude.*Claude Code cannot be put there"):
        put(client_home, "claude")


def test_gemini_project_name_is_unique_per_folder(tmp_path: Path) -> None:
    home = tmp_path / ".gemini"
    assert gemini_name(home, "/home/jill/cafe") == "cafe"
    assert gemini_name(home, "/home/jill/cafe") == "cafe"
    assert gemini_name(home, "/home/jack/Cafe") == "cafe-1"
    assert gemini_name(home, "/home/jack/Cafe") == "cafe-1"
    assert gemini_name(home, "/") == "project"
    assert gemini_name(home, "/srv/Ünder_.scores") == "nder-scores"
    assert not (home / "projects.json").exists()


def test_gemini_registered_project_names_are_used(tmp_path: Path) -> None:
    home = tmp_path / ".gemini"
    home.mkdir()
    projects = {"/a/cafe": "tea-room", "/b/cafe": "cafe", "/c/cafe": "../../etc"}
    (home / "projects.json").write_text(json.dumps({"projects": projects}))
    assert gemini_name(home, "/a/cafe") == "tea-room"
    assert gemini_name(home, "/d/cafe") == "cafe-1"
    assert gemini_name(home, "/c/cafe") == "cafe-2"
    other_folder = home / "history" / "tea-room"
    other_folder.mkdir(parents=True)
    (other_folder / ".project_root").write_text("/somebody/else")
    assert gemini_name(home, "/a/cafe") == "cafe-3"


LISTS = [
    *(b"", b"[]", b'{"projects": 5}', b"{" * 100_000, b"\xff"),
    b'{"projects": {"/home/jill/cafe": 5}}',
]


@pytest.mark.parametrize("list_", LISTS)
def test_invalid_gemini_registry_is_harmless(tmp_path: Path, list_: bytes) -> None:
    (tmp_path / "projects.json").write_bytes(list_)
    assert gemini_name(tmp_path, "/home/jill/cafe") == "cafe"
    assert (tmp_path / "projects.json").read_bytes() == list_


def test_long_folder_name_is_truncated_with_a_hash() -> None:
    """The expected value is that of JavaScript's `Math.abs(hash).toString(36)` with 32 bits."""
    first, second = ("/" + "x" * 250 + end for end in "ab")
    assert claude_name(first)[:201] == claude_name(second)[:201] == "-" + "x" * 199 + "-"
    assert claude_name(first) != claude_name(second)
    assert claude_name("/" + "a" * 200) == "-" + "a" * 199 + "-b6ymvl"
    assert claude_name("/🍵/tea") == "----tea"


def test_new_ids_have_the_format_of_their_runtime() -> None:
    for runtime, version in (("claude", "4"), ("codex", "7"), ("pi", "7"), ("gemini", "4")):
        ids = {create_session_id(runtime, 1_769_860_800_000) for _ in range(50)}
        assert len(ids) == 50
        assert {id_[14] for id_ in ids} == {version}
        assert {id_[19] for id_ in ids} <= set("89ab")
    assert create_session_id("codex", 1_769_860_800_000).startswith("019c13ec-9e00-7")
