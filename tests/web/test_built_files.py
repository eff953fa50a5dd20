"""The built files of the page belong to its sources: `make web` was run after the last change."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES, BUILT = ROOT / "web", ROOT / "src" / "harken" / "web"
SOURCE_PATHS = (
    *("index.html", "package-lock.json", "package.json", "public", "share.ts", "sources.ts"),
    *("src", "svelte.config.js", "vite.config.ts"),
)
"""Files and folders of which the built files are made, as in web/sources.ts."""
FORGOTTEN = "run `make web` and commit src/harken/web: it was not built from these sources"

pytestmark = pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources of the page are absent")


def list_sources() -> list[Path]:
    """Return the files of which the built files are made."""
    paths = [SOURCES / name for name in SOURCE_PATHS]
    files = [[*path.rglob("*")] if path.is_dir() else [path] for path in paths]
    return [path for group in files for path in group if path.is_file()]


def test_the_page_was_built_after_the_last_change_of_its_sources() -> None:
    lines = (BUILT / "sources.txt").read_text().splitlines()
    recorded = {path: hash_ for hash_, path in (line.split("  ", 1) for line in lines)}
    hashes = {
        path.relative_to(SOURCES).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in list_sources()
    }
    differences = [
        path for path in sorted(recorded.keys() | hashes) if recorded.get(path) != hashes.get(path)
    ]
    assert not differences, FORGOTTEN


def has_node() -> bool:
    """Whether this machine can build the page."""
    if not (SOURCES / "node_modules" / "vite").is_dir() or shutil.which("node") is None:
        return False
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    numbers = re.match(r"v(\d+)\.(\d+)", version.stdout)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (20, 19)


@pytest.mark.full
def test_a_new_build_is_the_same_byte_by_byte(tmp_path: Path) -> None:
    if not has_node():
        pytest.skip("the page is built with Node 20.19 or newer, after `npm ci` in web/")
    command = ["npm", "run", "build", "--", "--outDir", str(tmp_path), "--emptyOutDir"]
    subprocess.run(command, cwd=SOURCES, check=True, capture_output=True)
    assert read_files(tmp_path) == read_files(BUILT)


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by path."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
