"""Power cuts: what the device holds at a random moment, without what was only in memory.

The cuts are made by `shared/tools/power_cut.py`, which lies beside this repository where Harken is
developed: Linux, as root. Elsewhere these tests are skipped; `test_model_disk.py` tests the same
promise everywhere, against a model of a disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT.parent / "shared" / "tools" / "power_cut.py"


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the tool. Skip the test where it cannot work."""
    if not TOOL.exists():
        pytest.skip(f"{TOOL} is not there")
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("power cuts need Linux, root and mkfs.ext4")
    folder = tmp_path_factory.mktemp("loop")
    image, work_folder = folder / "image", folder / "at"
    work_folder.mkdir()
    with image.open("wb") as file:
        file.truncate(4 * 1024 * 1024)
    try:
        run("mkfs.ext4", "-q", "-F", image)
        run("mount", "-o", "loop", image, work_folder)
        run("umount", work_folder)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine mounts no images: {error.stderr.decode().strip()}")
    return TOOL


def cut_power(
    tool: Path, durability: str, cuts: int, seed: int
) -> subprocess.CompletedProcess[str]:
    """Cut the power under the writer. Return the report of the tool, and whether data was lost."""
    crash_folder = ROOT / "tests" / "crash"
    verifier: list[str | Path] = [sys.executable, crash_folder / "verifier.py", "{dir}", "{acked}"]
    writer: list[str | Path] = [sys.executable, crash_folder / "writer.py", durability, "{dir}"]
    how = ["--cuts", str(cuts), "--seed", str(seed), "--seconds", "1", "--size", "48"]
    return subprocess.run(
        [sys.executable, tool, *how, "--verify", *verifier, "--", *writer],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )


def acknowledged(result: subprocess.CompletedProcess[str]) -> int:
    """Return the total number of acknowledgments, none of which may be lost."""
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
    return int(result.stdout.partition(" cuts, ")[2].split()[0])


@pytest.mark.req("D-01", "S0-34")
@pytest.mark.parametrize("durability", ["turn", "always"])
def test_power_cut_loses_nothing_acknowledged(tool: Path, durability: str) -> None:
    assert acknowledged(cut_power(tool, durability, cuts=2, seed=os.getpid())) > 0


@pytest.mark.full
@pytest.mark.req("D-01", "S0-34")
@pytest.mark.parametrize("durability", ["turn", "always"])
def test_100_power_cuts_lose_nothing_acknowledged(tool: Path, durability: str) -> None:
    assert acknowledged(cut_power(tool, durability, cuts=100, seed=1)) > 100


@pytest.mark.full
def test_same_power_cuts_lose_unsynced_events(tool: Path) -> None:
    """Otherwise the tests above would prove nothing."""
    result = cut_power(tool, "none", cuts=5, seed=1)
    assert result.returncode == 1
    assert "5 cuts lost or damaged something" in result.stdout
