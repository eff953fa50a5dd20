"""Run LangGraph's own tests of graphs with Harken's savers in place of those of SQLite.

    python -m tools.langgraph_tests [FOLDER] [PYTEST ARGUMENTS]

FOLDER has the unpacked source distribution of the installed version of LangGraph (`pip download
--no-deps --no-binary :all: langgraph==VERSION`). Its tests need pytest-mock, syrupy, redis and
pycryptodome. In a copy of FOLDER, the module that creates the savers is replaced.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

SAVERS = '''"""The savers of the fixtures: in memory, and Harken's in place of those of SQLite."""

import tempfile
from contextlib import asynccontextmanager, contextmanager

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from harken.adapters.langgraph import AsyncHarkenSaver, HarkenSaver

pytest.register_assert_rewrite("tests.memory_assert")

from tests.memory_assert import (
    MemorySaverAssertImmutable,
    MemorySaverNeedsPendingSendsMigration,
)

DEFAULT_POSTGRES_URI = ""


@contextmanager
def _checkpointer_memory():
    yield MemorySaverAssertImmutable()


@contextmanager
def _checkpointer_memory_migrate_sends():
    yield MemorySaverNeedsPendingSendsMigration()


@contextmanager
def _checkpointer_sqlite():
    with tempfile.TemporaryDirectory() as folder, HarkenSaver(folder) as saver:
        yield saver


@contextmanager
def _checkpointer_sqlite_aes():
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"1234567890123456")
    with tempfile.TemporaryDirectory() as folder, HarkenSaver(folder, serde=serde) as saver:
        yield saver


@asynccontextmanager
async def _checkpointer_sqlite_aio():
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncHarkenSaver(folder) as saver:
            yield saver


def _skip():
    pytest.skip("needs PostgreSQL")


_checkpointer_postgres = _checkpointer_postgres_pipe = _checkpointer_postgres_pool = _skip
_checkpointer_postgres_aio = _checkpointer_postgres_aio_pipe = _skip
_checkpointer_postgres_aio_pool = _skip
'''


def main() -> int:
    """Run the tests, and return the exit code of pytest."""
    source = Path(sys.argv[1] if len(sys.argv) > 1 else f"langgraph-{version('langgraph')}")
    if not (source / "tests" / "conftest_checkpointer.py").exists():
        sys.stderr.write(f"{source}: not the source distribution of LangGraph; see the docstring\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder) / "langgraph"
        shutil.copytree(source / "tests", tests / "tests")
        shutil.copy(source / "pyproject.toml", tests)
        (tests / "tests" / "conftest_checkpointer.py").write_text(SAVERS, "utf-8")
        (tests / "tests" / "test_prune_postgres.py").unlink(missing_ok=True)
        arguments = sys.argv[2:] or ["-q", "-k", "sqlite"]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests", *arguments]
        environment = {**os.environ, "NO_DOCKER": "true"}
        return subprocess.run(command, cwd=tests, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
