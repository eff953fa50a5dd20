"""tools/faults.py: the faults of a module are valid, small, and keep their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.faults import PACKAGES, Fault, read_faults, select_faults

SOURCE = '''\
"""A module."""
import os


def write(fd: int, data: bytes, old: bytes) -> bool:
    """Write."""
    size = os.write(fd, data)
    if size != len(data) and not old:
        raise OSError("full")
    os.fsync(fd)
    compare(data, old)
    return size > 0
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for package in PACKAGES:
        folder = tmp_path / "src/harken" / package
        folder.mkdir(parents=True)
        (folder / "module.py").write_text(SOURCE)
    return tmp_path


def list_faults(root: Path) -> list[Fault]:
    return list(read_faults(root, "src/harken/store/module.py"))


def test_faults_change_one_place_and_compile(root: Path) -> None:
    faults = list_faults(root)
    for fault in faults:
        source = fault.apply(SOURCE.encode()).decode()
        compile(source, fault.path, "exec")
        assert source != SOURCE
    changes = {(fault.operator, fault.old) for fault in faults}
    assert ("drop sync", "os.fsync(fd)") in changes
    assert ("swap statements", "os.fsync(fd)\n    compare(data, old)") in changes
    assert ("swap arguments", "compare(data, old)") in changes
    assert ("negate condition", "size != len(data) and not old") in changes
    assert ("off by one", "0") in changes
    assert len({fault.id for fault in faults}) == len(faults)


def test_ids_stay_when_other_lines_change(root: Path) -> None:
    before = {fault.id for fault in list_faults(root)}
    path = root / "src/harken/store/module.py"
    path.write_text(SOURCE.replace("import os", "import os\n\nLIMIT = 5"))
    assert {fault.id for fault in list_faults(root)} == before


def test_selection_has_all_syncs_and_grows_with_the_count(root: Path) -> None:
    few, many = select_faults(root, 1, 12), select_faults(root, 1, 40)
    assert [fault.operator for fault in few[: len(PACKAGES)]] == ["drop sync"] * len(PACKAGES)
    assert many[: len(few)] == few
    assert select_faults(root, 2, 40) != many
