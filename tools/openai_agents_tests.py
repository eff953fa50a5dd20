"""Run the session tests of the OpenAI Agents SDK with Harken's session in place of its own.

    python -m tools.openai_agents_tests [FOLDER] [PYTEST ARGUMENTS]

FOLDER has the unpacked source distribution of the installed version of the SDK (`pip download
--no-deps --no-binary :all: openai-agents==VERSION`). In a copy of its tests, HarkenSession is in
place of SQLiteSession, and of the list of the tests' own session. The last line has the number of
tests that used it. Tests of private members of SQLiteSession are left out.

The tests need pytest-asyncio, pytest-mock and inline-snapshot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

SESSIONS = '''"""HarkenSession in place of the sessions of the SDK and of its tests."""

import os

import agents
import agents.extensions.memory.encrypt_session  # It compares classes with SQLiteSession.
import agents.memory
import agents.memory.sqlite_session

from harken.adapters.openai_agents import HarkenSession
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore


tests = set()


class CountedSession(HarkenSession):
    def __init__(self, *arguments, **options):
        tests.add(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])
        super().__init__(*arguments, **options)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{len(tests)} of the tests used a session of Harken")


class SQLiteSession(CountedSession):
    def __init__(self, session_id, db_path=":memory:", *tables, session_settings=None):
        is_memory = str(db_path) == ":memory:"
        store = MemoryStore() if is_memory else SqliteStore(db_path)
        super().__init__(session_id, store=store, session_settings=session_settings)
        self._own_store = store


class ListSession(CountedSession):
    """The session of the tests, with its list of items."""

    _ignore_ids_for_matching = False

    def __init__(self, session_id="test", history=None):
        super().__init__(session_id, store=MemoryStore())
        if history:
            self._conversation.add_items(history)

    @property
    def _items(self):
        return self._conversation.get_items()

    saved_items = _items


for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = SQLiteSession
'''
FILES = (
    "memory/test_compaction_model_visibility.py",
    "memory/test_openai_responses_compaction_session.py",
    "memory/test_session.py",
    "memory/test_session_context_wrapper.py",
    "memory/test_session_limit.py",
    "memory/test_session_persistence_sanitize.py",
    "deferred_session_writes",
    "extensions/memory/test_encrypt_session.py",
    "test_agent_runner.py",
    "test_agent_runner_streamed.py",
    "test_cancel_streaming.py",
    "test_handoff_history_duplication.py",
    "test_hitl_session_scenario.py",
    "test_invalid_final_output_handler.py",
    "test_max_turns.py",
    "test_native_tool_failure_history.py",
    "test_programmatic_tool_calling.py",
    "test_prompt_cache_key.py",
    "test_run_impl_resume_paths.py",
    "test_run_state_pending_input.py",
    "test_runtime_symmetry_contract.py",
    "test_soft_cancel.py",
    "test_tool_batch_failure_history.py",
    "test_tool_failure_boundaries.py",
    "utils/test_simple_session.py",
)

OWN_TESTS = (
    "sqlite_session_close",
    "sqlite_session_failed",
    "sqlite_session_file_lock",
    "sqlite_session_keeps_connections",
    "sqlite_session_post_commit_cancellation",
    "sqlite_session_reaps_connections",
    "sqlite_session_rollback",
    "corrupt",
    "backend_read_limit_cannot_hide",
    "automatic_compaction_does_not_reload",
    "expired_read_overhead",
    "automatic_compaction_rollback_budget",
    "test_settled_pop_failure",
    "test_settled_clear_failure",
    "encrypted_pop",
    "encrypted_compaction_skips",
    "handoff_resume_after_cancelled_compaction",
)
"""Parts of the names of tests that use private members: connections, locks, tables, inserts, and
the snapshot of a compaction."""


def main() -> int:
    """Run the tests, and return the exit code of pytest."""
    source = Path(sys.argv[1] if len(sys.argv) > 1 else f"openai_agents-{version('openai-agents')}")
    if not (source / "tests" / "memory" / "test_session.py").exists():
        sys.stderr.write(f"{source}: not the source distribution of the SDK; see the docstring\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(source / "tests", copy / "tests")
        shutil.copy(source / "pyproject.toml", copy)
        (copy / "harken_sessions.py").write_text(SESSIONS, "utf-8")
        simple = copy / "tests" / "utils" / "simple_session.py"
        text = simple.read_text("utf-8")
        start, end = text.index("class SimpleListSession"), text.index("class CountingSession")
        session = "from harken_sessions import ListSession as SimpleListSession\n\n\n"
        simple.write_text(text[:start] + session + text[end:], "utf-8")
        arguments = sys.argv[2:] or [*(f"tests/{name}" for name in FILES), "-q"]
        arguments += ["-k", " and ".join(f"not {name}" for name in OWN_TESTS)]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "harken_sessions",
        ]
        paths = [str(copy), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        ran = subprocess.run([*command, *arguments], cwd=copy, env=environment, check=False)
        return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
