"""Damaged derived databases.

33 of 992 single-byte changes in `facts.db` changed what `stats --json` or `search --json` print, with
exit code 0, and `fsck` read neither `facts.db` nor `index.db`. SQLite trusts the pages it reads. Now
each page has a checksum, a damaged index is rebuilt with one line that says so, and fsck checks both.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.kit import HARKEN, Cli
from tests.forks import processes
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

PAGE = 4096
COMMANDS = (("stats", "--json", "--utc"), ("search", "--json", "--all", "w1 OR w2 OR w3*"))
WORDS = 400


def write_transcripts(folder: Path, sessions: int, rounds: int) -> None:
    """Write sessions of Claude Code with random words, the same ones each time."""
    chance = random.Random(992)

    def words(count: int) -> str:
        return " ".join(f"w{chance.randrange(WORDS)}" for _ in range(count))

    folder.mkdir()
    for number in range(sessions):
        transcript = Transcript(f"5e55{number:04d}-0000-4000-8000-000000000001")
        for turn in range(rounds):
            transcript.user(words(12))
            transcript.answer(
                text_block(words(40)), tool_use_block(f"c{turn}", chance.choice(["Bash", "Read"]))
            )
            transcript.result(f"c{turn}", words(60))
        (folder / f"{number}.jsonl").write_bytes(transcript.data)


@dataclass
class Indexed:
    """A home with imported sessions, and what commands print as long as nothing is damaged."""

    cli: Cli
    expected: dict[Sequence[str], str]
    files: dict[Path, bytes]

    @property
    def facts(self) -> Path:
        return self.cli.home / "facts.db"

    @property
    def catalogue(self) -> Path:
        return self.cli.home / "index.db"

    def restore(self) -> None:
        """Undo all changes of the indexes."""
        for path in (self.facts, self.catalogue):
            for suffix in ("-wal", "-shm", "-journal"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        for path, data in self.files.items():
            path.write_bytes(data)

    def change(self, path: Path, at: int, bits: int) -> None:
        """Change one byte of a file."""
        data = bytearray(path.read_bytes())
        data[at] ^= bits
        path.write_bytes(data)

    def outcome(self, command: Sequence[str]) -> str:
        """Run a command, and tell a wrong answer from a right one."""
        ran = self.cli(*command)
        if ran.code or ran.out != self.expected[command]:
            return "refused" if ran.code else "wrong"
        return "rebuilt" if "was damaged" in ran.err else "harmless"


def index(cli: Cli, sessions: int, rounds: int) -> Indexed:
    """Import sessions, and note what commands print."""
    write_transcripts(cli.home.parent / "sources", sessions, rounds)
    cli.ok("import", cli.home.parent / "sources")
    expected: dict[Sequence[str], str] = {
        command: cli.ok(*command).out for command in [*COMMANDS, ("sessions", "--json")]
    }
    files = {path: path.read_bytes() for path in (cli.home / "facts.db", cli.home / "index.db")}
    return Indexed(cli, expected, files)


def changes(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Yield places of a database and bits to change there, spread over its pages.

    A third is at the beginning of a page, where its header and its cell pointers are.
    """
    chance = random.Random(count)
    pages = list(range(len(data) // PAGE))
    chance.shuffle(pages)
    for number in range(count):
        start = pages[number % len(pages)] * PAGE
        within = chance.randrange(100 if number % 3 == 0 else PAGE)
        yield start + within, chance.randrange(1, 256)


def outcomes_of_changes(indexed: Indexed, path: Path, count: int) -> Counter[str]:
    """Return how often commands were wrong, rebuilt an index, or read nothing that had changed."""
    counted: Counter[str] = Counter()
    commands = COMMANDS if path == indexed.facts else (*COMMANDS, ("sessions", "--json"))
    for at, bits in changes(indexed.files[path], count):
        results = []
        for command in commands:
            indexed.restore()
            indexed.change(path, at, bits)
            results.append(indexed.outcome(command))
        for outcome in ("wrong", "refused", "rebuilt", "harmless"):
            if outcome in results:
                counted[outcome] += 1
                break
    return counted


@pytest.fixture
def small(cli: Cli) -> Indexed:
    return index(cli, sessions=2, rounds=6)


def test_a_changed_byte_of_the_facts_never_changes_an_answer(small: Indexed) -> None:
    counted = outcomes_of_changes(small, small.facts, 20)
    assert counted["wrong"] == counted["refused"] == 0, counted
    assert counted["rebuilt"]


@pytest.mark.full
def test_992_changed_bytes_of_the_facts_change_no_answer(cli: Cli) -> None:
    indexed = index(cli, sessions=3, rounds=15)
    counted = outcomes_of_changes(indexed, indexed.facts, 992)
    print(f"{len(indexed.files[indexed.facts])} bytes: {dict(counted)}")
    assert counted["wrong"] == counted["refused"] == 0, counted


@pytest.mark.full
def test_changed_bytes_of_the_catalogue_change_no_statistics(cli: Cli) -> None:
    indexed = index(cli, sessions=3, rounds=15)
    counted: Counter[str] = Counter()
    for at, bits in changes(indexed.files[indexed.catalogue], 200):
        indexed.restore()
        indexed.change(indexed.catalogue, at, bits)
        ran = indexed.cli("sessions", "--json")
        is_same = ran.out == indexed.expected["sessions", "--json"]
        counted[
            "harmless" if is_same else "reported" if "lost records" in ran.err else "wrong"
        ] += 1
        for command in COMMANDS:
            assert indexed.outcome(command) in ("harmless", "rebuilt")
    print(dict(counted))
    assert not counted["wrong"], counted


def test_a_changed_byte_of_the_header_is_found(small: Indexed) -> None:
    for at in (0, 17, 20, 28, 44, 60, 68, 100, 105):
        small.restore()
        small.change(small.facts, at, 1)
        assert small.outcome(COMMANDS[0]) == "rebuilt", at
    assert small.outcome(COMMANDS[0]) == "harmless"


def test_the_line_says_which_file_was_damaged(small: Indexed) -> None:
    small.change(small.facts, 3 * PAGE + 50, 4)
    for path in (small.facts, small.catalogue):
        small.change(path, 2 * PAGE - 100, 4)
    err = small.cli.ok(*COMMANDS[1]).err
    assert f"harken: {small.facts} was damaged; it is rebuilt from the store and the logs\n" in err


def test_fsck_reports_damaged_indexes_and_changes_nothing(small: Indexed) -> None:
    assert small.cli("store", "fsck").code == 0
    for path in (small.facts, small.catalogue):
        small.change(path, len(small.files[path]) - PAGE + 4, 255)
    before = small.facts.read_bytes(), small.catalogue.read_bytes()
    ran = small.cli("store", "fsck")
    assert ran.code == 1
    for path in (small.facts, small.catalogue):
        page = len(small.files[path]) // PAGE
        assert (
            f"{path}: page {page} (byte {(page - 1) * PAGE}) does not match its checksum" in ran.out
        )
    assert (small.facts.read_bytes(), small.catalogue.read_bytes()) == before


def test_a_damaged_catalogue_keeps_the_records_that_can_be_read(cli: Cli) -> None:
    indexed = index(cli, sessions=30, rounds=1)
    listed = cli.ok("sessions", "--json").json
    leaves = [
        number
        for number in range(1, len(indexed.files[indexed.catalogue]) // PAGE)
        if b"/sources/" in indexed.files[indexed.catalogue][number * PAGE : (number + 1) * PAGE]
    ]
    indexed.change(indexed.catalogue, leaves[-1] * PAGE + PAGE // 2, 1)
    ran = cli.ok("sessions", "--json")
    assert 0 < len(ran.json) <= len(listed)
    assert f"{indexed.catalogue} was damaged; its readable records were kept" in ran.err
    assert "lost records" in cli.ok("sessions").err
    cli.ok("import", cli.home.parent / "sources")
    again = cli.ok("sessions", "--json")
    assert again.json == listed
    assert not again.err


def test_a_changed_byte_of_the_write_ahead_log_changes_no_answer(small: Indexed) -> None:
    """The files are those of a process that was killed before its commits were checkpointed."""
    import apsw

    with (small.cli.home.parent / "other.jsonl").open("wb") as file:
        transcript = Transcript("5e559999-0000-4000-8000-000000000001")
        transcript.user("w1 w2 w3")
        transcript.answer(text_block("w1 w2 w3 w4"))
        file.write(transcript.data)
    reader = apsw.Connection(str(small.facts), apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN; SELECT 1 FROM sessions").fetchall()
    small.cli.ok("import", small.cli.home.parent / "other.jsonl")
    wal = small.facts.with_name("facts.db-wal")
    files = {path: path.read_bytes() for path in (small.facts, small.catalogue, wal)}
    reader.close()
    for command in COMMANDS:
        small.expected[command] = small.cli.ok(*command).out
    chance = random.Random(4)
    for _ in range(12):
        small.restore()
        for path, data in files.items():
            path.write_bytes(data)
        small.change(wal, chance.randrange(len(files[wal])), chance.randrange(1, 256))
        assert small.outcome(COMMANDS[chance.randrange(2)]) in ("harmless", "rebuilt")


@pytest.mark.full
def test_a_kill_at_any_moment_is_no_false_alarm(cli: Cli, tmp_path: Path) -> None:
    write_transcripts(tmp_path / "sources", sessions=8, rounds=40)
    chance = random.Random(7)
    for _ in range(20):
        shutil.rmtree(cli.home, ignore_errors=True)
        started = processes.start(
            [HARKEN, "import", tmp_path / "sources", "--jobs", "1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(3):
            time.sleep(chance.uniform(0.3, 2.5))
            started.send_signal(signal.SIGKILL)
            started.communicate()
            started = processes.start(
                [HARKEN, "search", "w1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        _, err = started.communicate(timeout=60)
        assert b"damaged" not in err
        if cli.home.exists():
            assert cli("store", "fsck").code == 0
