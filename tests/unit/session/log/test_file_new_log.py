"""New logs: an empty file under an unused name."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harken.errors import LogWriteError
from harken.session.log.file import new_log


def test_existing_name_gets_a_number(tmp_path: Path) -> None:
    assert [new_log(tmp_path, "s").name for _ in range(3)] == ["s.jsonl", "s-2.jsonl", "s-3.jsonl"]


def test_compressed_log_occupies_its_name(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl.zst").write_bytes(b"")
    assert new_log(tmp_path, "s").name == "s-2.jsonl"
    assert not (tmp_path / "s.jsonl").exists()


def test_concurrent_creators_get_different_names(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: new_log(tmp_path, "s"), range(40)))
    assert len(set(paths)) == 40


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogWriteError, match="gone"):
        new_log(tmp_path / "gone", "s")
