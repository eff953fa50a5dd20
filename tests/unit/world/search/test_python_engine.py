"""The output of the Python search program, called in this process. test_search.py runs it."""

import contextlib
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harken.world.search.glob import glob_of
from harken.world.search.python_engine import main
from tests.unit.world.files.file_kit import write_files


def run_engine(folder: Path, **query: Any) -> tuple[int, bytes]:
    request = {
        "pattern": None, "ignore_case": False, "context_lines": 0, "most": 100, "file": None,
        "hidden": False, "glob": None, "max_bytes": 1000,
    } | query  # fmt: skip
    out = io.BytesIO()
    with contextlib.chdir(folder):
        code = main(json.dumps(request), out)
    return code, out.getvalue()


def test_files_end_with_a_nul(tmp_path: Path) -> None:
    write_files(tmp_path, {"a\nb": "", ".hidden": ""})
    assert run_engine(tmp_path) == (0, b"a\nb\0")
    assert run_engine(tmp_path, hidden=True, glob=asdict(glob_of(".*"))) == (0, b".hidden\0")


def test_lines_have_file_number_and_kind(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "one\ntwo\r\nthree\ntwo"})
    assert run_engine(tmp_path, pattern="tw") == (0, b"a\x002:two\na\x004:two\n")
    code, out = run_engine(tmp_path, pattern="ONE", ignore_case=True, context_lines=1)
    assert (code, out) == (0, b"a\x001:one\na\x002-two\n")
    assert run_engine(tmp_path, pattern="t", most=1, file="a") == (0, b"./a\x002:two\n")


def test_large_and_binary_files_are_skipped(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"large": "x" * 1001, "binary": "x\0", "wide": "x".encode("utf-16"), "ok": "x"}
    )
    (tmp_path / "link").symlink_to("ok")
    out = run_engine(tmp_path, pattern="x")[1]
    assert sorted(out.splitlines()) == [b"ok\x001:x", b"wide\x001:x"]
    assert run_engine(tmp_path, pattern="x", file="link") == (0, b"")
    assert run_engine(tmp_path, pattern="x", file="gone") == (0, b"")


def test_long_line_is_truncated(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "x" * 5000})
    assert len(run_engine(tmp_path, pattern="x", max_bytes=9000)[1]) < 2100


def test_invalid_pattern_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for pattern in ("(", "[[:alpha:]]", "(" * 2000):
        assert run_engine(tmp_path, pattern=pattern) == (2, b"")
        assert capsys.readouterr().err.startswith("regex parse error")
