"""The tools `glob` and `grep`: the same answers, whichever program looks."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harken.world.files.regular_file import MAX_FILE_BYTES
from harken.world.files.root import Root
from harken.world.result import ToolError
from harken.world.search.engines import Engine, FileQuery, Ripgrep, Scanner, engine_for, ripgrep
from harken.world.search.tools import MAX_LISTED_FILES, search_tools
from tests.unit.world.files.filing import ENGINES, Desk, fill

SOME_LEFT = "[some files could not be searched and may have more matches]"
NAMES = [type(engine).__name__ for engine in ENGINES]
FILES: dict[str, str | bytes] = {
    "a.py": "import os\n\ndef main():\n    pass\n",
    "src/b.py": "import sys\r\nx = 1\r\nimport os\r\n",
    "src/notes.md": "About imports.\n",
    "src/-v.txt": "-v import\n",
    "build/out.py": "import built\n",
    ".env": "import secret\n",
    ".github/ci.yml": "import: ci\n",
    "data.bin": b"import\0\n",
    "late.bin": b"import early\n" + b"x\n" * 100_000 + b"\0",
    "latin.txt": b"import caf\xe9\n",
    "bom.txt": b"\xef\xbb\xbfimport bom\n",
    "wide.txt": "import wide\n".encode("utf-16"),
    "unterminated": "last import",
    ".hidden.py": "import hidden\n",
    ".gitignore": "build/\n!.hidden.py\n",
    ".git/config": "import git\n",
}


@pytest.fixture(params=ENGINES, ids=NAMES)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    return Desk(fill(tmp_path, FILES), request.param)


def aged(folder: Path, *names: str) -> None:
    """Let files have been changed in this order."""
    for age, name in enumerate(names):
        os.utime(folder / name, ns=(0, 10**18 + age))


@pytest.mark.req("S4-40")
def test_glob_finds_files_by_name_the_newest_first(desk: Desk) -> None:
    aged(desk.folder, "src/b.py", "a.py")
    assert desk.run("glob", pattern="*.py") == "a.py\nsrc/b.py"
    assert desk.run("glob", pattern="**/*.py", path="src") == "src/b.py"
    assert desk.run("glob", pattern=f"{desk.folder}/src/*.md") == "src/notes.md"
    assert desk.run("glob", pattern="*.none") == "[no files]"


def test_hidden_and_ignored_files_are_found_where_they_are_named(desk: Desk) -> None:
    assert "ci.yml" not in desk.run("glob", pattern="**/*")
    assert desk.run("glob", pattern="**/.env") == ".env"
    assert desk.run("glob", pattern=".github/*") == ".github/ci.yml"
    assert desk.run("glob", pattern="*.yml", path=".github") == ".github/ci.yml"
    assert desk.run("glob", pattern="build/*.py") == "build/out.py"
    assert desk.run("glob", pattern="build/out.py") == "build/out.py"
    assert desk.run("glob", pattern=".g*/*") == ".github/ci.yml"


def test_glob_says_why_it_finds_nothing(desk: Desk) -> None:
    assert desk.failure("glob", pattern="scr/*.py").endswith("similar: src")
    assert desk.failure("glob", pattern="src/b.pi").endswith("similar: src/b.py")
    assert "outside" in desk.failure("glob", pattern="../*")
    assert "is not a folder" in desk.failure("glob", pattern="*", path="a.py")
    assert "is not a folder" in desk.failure("glob", pattern="a.py/*")
    assert "empty" in desk.failure("glob", pattern="")
    assert "more than" in desk.failure("glob", pattern="{a,b}" * 30)


def test_what_glob_lists_has_an_end(desk: Desk) -> None:
    fill(desk.folder, {f"many/{n:03}.x": "" for n in range(MAX_LISTED_FILES + 1)})
    lines = desk.run("glob", pattern="*.x").split("\n")
    assert len(lines) == MAX_LISTED_FILES + 1
    assert lines[-1].startswith(f"[the {MAX_LISTED_FILES} newest of {MAX_LISTED_FILES + 1}")


@pytest.mark.req("S4-40")
def test_grep_shows_lines_by_file(desk: Desk) -> None:
    assert desk.run("grep", pattern=r"^import \w+$") == (
        "a.py\n1:import os\n\nbom.txt\n1:import bom\n\nsrc/b.py\n1:import sys\n3:import os\n\n"
        "wide.txt\n1:import wide"
    )


def test_grep_looks_into_text_of_any_kind_and_nothing_else(desk: Desk) -> None:
    shown = desk.run("grep", pattern="import", limit=100)
    names = [block.partition("\n")[0] for block in shown.split("\n\n")]
    assert names == [
        "a.py", "bom.txt", "latin.txt", "src/-v.txt", "src/b.py", "src/notes.md",
        "unterminated", "wide.txt",
    ]  # fmt: skip
    assert "latin.txt\n1:import caf\ufffd" in shown


def test_grep_looks_where_it_is_told(desk: Desk) -> None:
    assert desk.run("grep", pattern="import", path="src/b.py").startswith("src/b.py\n1:import sys")
    assert desk.run("grep", pattern="import", path=".env") == ".env\n1:import secret"
    assert desk.run("grep", pattern="import", path="build") == "build/out.py\n1:import built"
    assert desk.run("grep", pattern="os", glob="src/*.py") == "src/b.py\n3:import os"
    assert desk.run("grep", pattern="os", glob="*.{py,md}", path="src") == "src/b.py\n3:import os"
    assert desk.run("grep", pattern="import", glob="*.yml") == "[no matches]"
    assert desk.run("grep", pattern="import", glob="**/.env") == ".env\n1:import secret"
    assert desk.run("grep", pattern="import", glob="src/notes.md").startswith("src/notes.md")
    assert desk.run("grep", pattern="built", glob="*.py") == "[no matches]"


def test_what_looks_like_an_option_is_none(desk: Desk) -> None:
    assert desk.run("grep", pattern="-v") == "src/-v.txt\n1:-v import"
    assert desk.run("grep", pattern="import", path="src/-v.txt") == "src/-v.txt\n1:-v import"
    assert desk.run("grep", pattern="--files", glob="-*") == "[no matches]"
    assert desk.run("glob", pattern="-*") == "src/-v.txt"


def test_case_and_context(desk: Desk) -> None:
    assert desk.run("grep", pattern="IMPORTS") == "[no matches]"
    found = desk.run("grep", pattern="IMPORTS", ignore_case=True)
    assert found == "src/notes.md\n1:About imports."
    fill(desk.folder, {"c.txt": "".join(f"{n}\n" for n in range(1, 13))})
    found = desk.run("grep", pattern="^(2|4|10)$", path="c.txt", context_lines=1)
    assert found == "c.txt\n1-1\n2:2\n3-3\n4:4\n5-5\n--\n9-9\n10:10\n11-11"


def test_what_grep_shows_has_an_end(desk: Desk) -> None:
    fill(desk.folder, {"many/a": "needle\n" * 500, "many/b": "needle\n" * 500})
    shown = desk.run("grep", pattern="needle", limit=502)
    assert shown.count(":needle") == 502
    assert shown.endswith("[the first 502 lines of more: narrow the search]")
    assert desk.run("grep", pattern="needle", limit=1000).endswith("500:needle")
    fill(desk.folder, {"long": "x" * 100_000 + "needle\n"})
    assert desk.run("grep", pattern="needle", path="long") == f"long\n1:{'x' * 500} ..."
    fill(desk.folder, {"wide/a": ("needle" + "y" * 600 + "\n") * 200})
    assert len(desk.run("grep", pattern="needle", path="wide")) < 42_000


def test_a_search_that_finds_far_too_much_is_ended(desk: Desk) -> None:
    fill(desk.folder, {f"many/{n}": "needle\n" * 1000 for n in range(40)})
    assert "lines of more" in desk.run("grep", pattern="needle", limit=2000)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "regex parse error|missing|unterminated"),
        ("[a", "regex parse error|unterminated"),
        ("*", "regex parse error|nothing to repeat"),
        ("a\nb", "single lines"),
        (r"a\nb", "single lines"),
        ("", "empty"),
        ("\0", "NUL"),
        ("\ud800", "not valid text"),
        ("x" * 20_000, "too long"),
    ],
)
def test_a_pattern_that_is_none_says_why(desk: Desk, pattern: str, reason: str) -> None:
    with pytest.raises(ToolError, match=reason):
        desk.content("grep", pattern=pattern)


def test_what_means_something_else_in_python_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "abc\n"})
    desk = Desk(tmp_path, Scanner())
    assert "nested set" in desk.failure("grep", pattern="[[:alpha:]]+")
    assert "bad escape" in desk.failure("grep", pattern=r"\p{L}")


def test_an_escaped_backslash_before_n_is_no_line_end(desk: Desk) -> None:
    fill(desk.folder, {"tex": "\\newline\n"})
    assert desk.run("grep", pattern=r"\\new") == "tex\n1:\\newline"


def test_grep_says_why_it_cannot_look(desk: Desk) -> None:
    fill(desk.folder, {"huge": b"x\n" * (MAX_FILE_BYTES // 2 + 1)})
    os.mkfifo(desk.folder / "pipe")
    assert "up to 10.0 MB" in desk.failure("grep", pattern="x", path="huge")
    assert "a binary file" in desk.failure("grep", pattern="x", path="data.bin")
    assert "a FIFO" in desk.failure("grep", pattern="x", path="pipe")
    assert "b.py does not exist" in desk.failure("grep", pattern="x", path="b.py")
    assert "limit" in desk.failure("grep", pattern="x", limit=0)
    assert "context_lines" in desk.failure("grep", pattern="x", context_lines=-1)


@pytest.mark.parametrize(
    "name", [b"new\nline", b"caf\xe9", b"--hidden", b"a:1:b", b"\xe2\x80\xaertl"]
)
def test_hostile_file_names_are_names(desk: Desk, name: bytes) -> None:
    told = Desk(desk.folder).root.format_name(desk.folder / os.fsdecode(name))
    fill(desk.folder, {f"odd/{os.fsdecode(name)}": "needle\n"})
    assert desk.run("grep", pattern="needle", path="odd") == f"odd/{told}\n1:needle"
    assert desk.run("glob", pattern="*", path="odd") == f"odd/{told}"
    assert "\n" not in told


def test_a_file_that_is_binary_further_on_hides_nothing_else(desk: Desk) -> None:
    """What ripgrep says of it stands before the name of the next file."""
    files: dict[str, str | bytes] = {f"mix/{n}": "needle\n" for n in range(0, 40, 2)}
    files |= {f"mix/{n}": b"needle\n" + b"x\n" * 90_000 + b"\0" for n in range(1, 20, 2)}
    fill(desk.folder, files)
    shown = desk.run("grep", pattern="needle", path="mix")
    names = [block.partition("\n")[0] for block in shown.split("\n\n")]
    assert names == sorted(f"mix/{n}" for n in range(0, 40, 2))


def test_a_configuration_of_a_person_changes_nothing(desk: Desk) -> None:
    fill(desk.folder, {".ignore": "*.py", ".git/info/exclude": "*.py"})
    assert "a.py" in desk.run("glob", pattern="*.py")


@pytest.mark.skipif(len(ENGINES) < 2, reason="needs ripgrep")
@pytest.mark.parametrize(
    "pattern",
    [r"\bos\b", r"import (\w+)", r"^\s*def", r"s$", r"\d", "é|caf", r"(?i)ABOUT",
     r"(?<=import )os", r"(.)\1", "x{2,}", r"\.", "os|sys", r"[A-Z_]"],
)  # fmt: skip
@pytest.mark.parametrize("context_lines", [0, 1])
def test_both_engines_show_the_same(tmp_path: Path, pattern: str, context_lines: int) -> None:
    fill(tmp_path, FILES)
    one, other = (
        Desk(tmp_path, engine).run("grep", pattern=pattern, context_lines=context_lines)
        for engine in ENGINES
    )
    # Where an expression is not one of its own, `rg` looks into UTF-8 only, and says so.
    assert one == other.removesuffix(f"\n\n{SOME_LEFT}")


@pytest.mark.skipif(len(ENGINES) < 2, reason="needs ripgrep")
@pytest.mark.parametrize(
    "pattern", ["**", "*.py", "*.{py,md}", "s*/**", "**/b.*", "[a-c].py", "*.p?", ".*"]
)
def test_both_engines_find_the_same(tmp_path: Path, pattern: str) -> None:
    fill(tmp_path, FILES)
    aged(tmp_path, *FILES)
    one, other = (Desk(tmp_path, engine).run("glob", pattern=pattern) for engine in ENGINES)
    assert one == other


def test_a_regular_expression_that_never_ends_is_ended(tmp_path: Path) -> None:
    fill(tmp_path, {"a.txt": "a" * 60 + "\n"})
    _, grep = search_tools(Root(tmp_path), Scanner(), within_s=0.8)
    began = time.monotonic()
    with pytest.raises(ToolError, match=r"longer than 0\.8 s"):
        asyncio.run(grep.run({"pattern": "(a+)+b"}))
    assert time.monotonic() - began < 40


@dataclass(frozen=True)
class Sleeper:
    """An engine that finds nothing for a long time; it leaves its process id in a file."""

    noted: Path

    def command(self, query: FileQuery) -> Sequence[str]:
        code = f"import os, time; open({str(self.noted)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        return [sys.executable, "-c", code]


def test_a_search_that_nobody_waits_for_is_killed(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    glob, _ = search_tools(Root(tmp_path), Sleeper(noted))

    async def cancelled() -> int:
        searching = asyncio.create_task(glob.run({"pattern": "*"}))
        while not (noted.exists() and noted.read_text()):
            await asyncio.sleep(0.01)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        return int(noted.read_text())

    pid = asyncio.run(cancelled())
    deadline = time.monotonic() + 30
    while (alive := is_alive(pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@dataclass(frozen=True)
class Torn:
    """An engine that prints what it has found, and that something went wrong, as `rg` does."""

    printed: bytes

    def command(self, query: FileQuery) -> Sequence[str]:
        code = f"import sys; sys.stdout.buffer.write({self.printed!r}); sys.exit(2)"
        return [sys.executable, "-c", code]


def test_what_could_not_be_searched_is_not_said_to_hold_nothing(tmp_path: Path) -> None:
    assert Desk(tmp_path, Torn(b"")).run("grep", pattern="x") == SOME_LEFT
    found = Desk(tmp_path, Torn(b"./a.txt\x001:x\n")).run("grep", pattern="x")
    assert found == f"a.txt\n1:x\n\n{SOME_LEFT}"
    assert Desk(tmp_path, Torn(b"./a.txt\0")).run("glob", pattern="*") == f"a.txt\n{SOME_LEFT}"


def test_a_program_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Ripgrep(str(tmp_path / "nothing")))
    assert "could not be started" in desk.failure("grep", pattern="x")


def test_nothing_is_imported_from_the_folder_that_is_searched(tmp_path: Path) -> None:
    hostile = "open('was-here', 'w')\nraise SystemExit(3)\n"
    fill(
        tmp_path,
        {"re.py": hostile, "json.py": hostile, "harken/__init__.py": hostile, "os.py": hostile},
    )
    desk = Desk(tmp_path, Scanner())
    assert "re.py" in desk.run("glob", pattern="*.py")
    assert not (tmp_path / "was-here").exists()


def test_without_ripgrep_python_looks() -> None:
    assert isinstance(engine_for(None), Scanner)
    found = ripgrep()
    assert found is None or isinstance(engine_for(found), Ripgrep)


def test_engines_fulfil_one_protocol() -> None:
    engines: list[Engine] = [Scanner(), Ripgrep("/usr/bin/rg")]
    assert all(
        isinstance(part, str) for one in engines for part in one.command(FileQuery(pattern="x"))
    )
