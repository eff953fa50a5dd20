"""Attribution: one line among 10,000 commits of git and 1,000,000 recorded edits.

A repository is written with `git fast-import`: each commit adds a function to one of its files.
Each function was written by a recorded edit; all other edits are of other projects, whose files
have the same names. A question is asked in one process with all that it opens, on the wall: git's
own processes are most of it, and `git blame` alone is measured beside it. The files are in the
cache, since each question is asked once before.

The size is smaller with `HARKEN_BENCH_EDITS=20000`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.measure import RUNS, Row, cpu_s, spread, wall_s
from harken.attribution.attribution import Attribution
from harken.attribution.git.repository import GitRepository
from harken.attribution.records.edit_index import EditIndex
from harken.attribution.records.edit_ingest import update_edits
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint_all
from harken.core.clock import format_rfc3339
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.formats.base import ConversationEntry
from harken.index.session_index import SessionIndex
from harken.store.sqlite.store import SqliteStore

COMMITS, FILES = 10_000, 500
EDITS = int(os.environ.get("HARKEN_BENCH_EDITS", "1000000"))
EDITS_PER_COMMIT, COMMITS_PER_BATCH = 100, 20
"""Edits in one context commit, and context commits in one write."""
PROJECTS = 50
START_S = 1_767_600_000
ASKED = 5
"""Lines that are asked for, of each age."""
WORDS = "order price invoice customer payment basket ticket parcel refund stock coupon".split()  # noqa: SIM905


def path_of(number: int) -> str:
    """Return the path of a file of the repository."""
    return f"src/part{number % 20}/module{number}.py"


def function_of(number: int) -> str:
    """Return the function that one edit adds."""
    chance = random.Random(number)
    a, b, c = (chance.choice(WORDS) for _ in range(3))
    return (
        f"\n\ndef {a}_{b}_{number}({c}):\n"
        f"    {a} = {b}.get('{c}', {chance.randrange(1000)})\n"
        f"    for {b} in {a}.{c}s:\n"
        f"        {c}.append({a} * {chance.randrange(1000)})\n"
        f"    return None\n"
    )


def write_repository(folder: Path) -> None:
    """Write the repository, a commit for each function."""
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    texts: dict[int, str] = {}

    def stream() -> Iterator[bytes]:
        for number in range(COMMITS):
            file = number % FILES
            texts[file] = texts.get(file, "import os\n") + function_of(number)
            data, time = texts[file].encode(), START_S + 60 * number + 30
            yield (
                (
                    f"commit refs/heads/main\ncommitter Jill <jill@example.com> {time} +0000\n"
                    f"data 5\nWork\nM 100644 inline {path_of(file)}\ndata {len(data)}\n"
                ).encode()
                + data
                + b"\n"
            )

    with subprocess.Popen(
        ["git", "-C", folder, "fast-import", "--quiet"], stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        for chunk in stream():
            process.stdin.write(chunk)
        process.stdin.close()
    subprocess.run(["git", "-C", folder, "reset", "-q", "--hard"], check=True)


def edit_entries(number: int, folder: Path) -> list[ConversationEntry]:
    """Return the call and the result of one edit: of the repository, or of another project."""
    root, file = str(folder), number % FILES
    if number >= COMMITS:
        root = f"/home/jill/project{number % PROJECTS}"
    text = function_of(number)
    arguments = {
        "file_path": f"{root}/{path_of(file)}",
        "old_string": "    return None\n",
        "new_string": f"    return None\n{text}",
    }
    if number < FILES:
        arguments = {"file_path": f"{root}/{path_of(file)}", "content": f"import os\n{text}"}
    name = "Write" if number < FILES else "Edit"
    call = ToolCall(f"toolu_{number:020d}", FunctionCall(name, json.dumps(arguments)))
    time = format_rfc3339((START_S + 60 * (number % COMMITS)) * 1_000_000)
    return [
        ConversationEntry(Message("assistant", None, [call]), time, {"model": "claude-opus-4-5"}),
        ConversationEntry(Message("tool", "done", tool_call_id=call.id), time),
    ]


def write_store(store: SqliteStore, folder: Path) -> None:
    """Write the context commits with all edits."""
    size = EDITS_PER_COMMIT * COMMITS_PER_BATCH
    for start in range(0, EDITS, size):
        drafts: list[CommitDraft] = []
        for first in range(start, min(start + size, EDITS), EDITS_PER_COMMIT):
            entries = [ConversationEntry(Message("user", f"Task {first}."))]
            for number in range(first, min(first + EDITS_PER_COMMIT, EDITS)):
                entries += edit_entries(number, folder)
            name = f"claude:session{first}"
            origin = CommitOrigin(session_id=name, principal=name)
            drafts.append(
                CommitDraft(
                    entries=entries,
                    trigger="import",
                    origin=origin,
                    created_at=format_rfc3339(START_S * 1_000_000),
                )
            )
        for draft in drafts:
            checkpoint_all(store, [draft])


def ask(home: Path, folder: Path, path: str, line: int) -> None:
    """Ask for one line, with everything that a question opens. The answer must be an agent."""
    with (
        closing(SqliteStore(home / "store.db")) as store,
        closing(EditIndex(home / "edits.db")) as index,
        closing(SessionIndex(None)) as facts,
        closing(GitRepository(folder)) as repository,
    ):
        update_edits(index, store)
        attribution = Attribution(repository, index, facts, store)
        (origin,) = attribution.origins(path, [(line, line)])
        assert origin.is_agent, (path, line)
        assert origin.edit is not None
        attribution.explainer.explain(origin.edit)


def git_blame(folder: Path, path: str, line: int) -> None:
    """Run git blame for one line."""
    command = ["git", "-C", str(folder), "blame", "--porcelain", "-L", f"{line},{line}", "--", path]
    subprocess.run(command, check=True, capture_output=True)


def rows() -> list[Row]:
    """Measure the index, and questions for new and for old lines."""
    with tempfile.TemporaryDirectory() as temporary:
        home, folder = Path(temporary), Path(temporary, "repository")
        write_repository(folder)
        with closing(SqliteStore(home / "store.db")) as store:
            write_store(store, folder)
            with closing(EditIndex(home / "edits.db")) as index:
                ingest = cpu_s(lambda: update_edits(index, store))
                again = [wall_s(lambda: update_edits(index, store)) for _ in range(RUNS)]
        size = (home / "edits.db").stat().st_size
        lines = {
            "new": [(path_of(FILES - 1 - n), 7 * (COMMITS // FILES) - 2) for n in range(ASKED)],
            "old": [(path_of(n), 5) for n in range(ASKED)],
        }
        results = [
            Row(
                f"index {EDITS:,} edits: 1,000 edits/s",
                f"{EDITS / ingest / 1e3:.1f}",
                "",
                f"edits.db has {size / 1e6:.0f} MB",
            ),
            Row("index of edits when nothing is new: ms", spread(again, 1e3, 1)),
        ]
        for age, places in lines.items():
            asked, blamed = [], []
            for path, line in places:
                question = partial(ask, home, folder, path, line)
                question()
                asked += [wall_s(question) for _ in range(RUNS)]
                blamed += [wall_s(partial(git_blame, folder, path, line)) for _ in range(RUNS)]
            what = f"why one line of the {age} commits, {COMMITS:,} commits, {EDITS:,} edits: ms"
            note = f"git blame alone: {spread(blamed, 1e3, 0)}"
            results.append(Row(what, spread(asked, 1e3, 0), "< 300", note))
    return [*results, _start_row()]


def _start_row() -> Row:
    """Return the time of the command line without a question."""
    command = [str(Path(sys.executable).with_name("harken")), "why", "--help"]
    run = partial(subprocess.run, command, check=True, capture_output=True)
    run()
    return Row("`harken why --help`: ms", spread([wall_s(run) for _ in range(RUNS)], 1e3, 0))
