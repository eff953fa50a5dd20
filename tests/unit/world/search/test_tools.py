"""The tools `glob` and `grep` return the same results with both engines."""

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
from tests.unit.world.files.file_kit import ENGINES, FileTools, write_files

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
def file_tools(request: pytest.FixtureRequest, tmp_path: Path) -> FileTools:
    return FileTools(write_files(tmp_path, FILES), request.param)


def set_ascending_mtimes(folder: Path, *names: str) -> None:
    """Set ascending modification times in this order."""
    for age, name in enumerate(names):
        os.utime(folder / name, ns=(0, 10**18 + age))


@pytest.mark.req("S4-40")
def test_glob_finds_files_by_name_newest_first(file_tools: FileTools) -> None:
    set_ascending_mtimes(file_tools.folder, "src/b.py", "a.py")
    assert file_tools.run("glob", pattern="*.py") == "a.py\nsrc/b.py"
    assert file_tools.run("glob", pattern="**/*.py", path="src") == "src/b.py"
    assert file_tools.run("glob", pattern=f"{file_tools.folder}/src/*.md") == "src/notes.md"
    assert file_tools.run("glob", pattern="*.none") == "[no files]"


def test_hidden_and_ignored_files_are_found_if_named(file_tools: FileTools) -> None:
    assert "ci.yml" not in file_tools.run("glob", pattern="**/*")
    assert file_tools.run("glob", pattern="**/.env") == ".env"
    assert file_tools.run("glob", pattern=".github/*") == ".github/ci.yml"
    assert file_tools.run("glob", pattern="*.yml", path=".github") == ".github/ci.yml"
    assert file_tools.run("glob", pattern="build/*.py") == "build/out.py"
    assert file_tools.run("glob", pattern="build/out.py") == "build/out.py"
    assert file_tools.run("glob", pattern=".g*/*") == ".github/ci.yml"


def test_glob_explains_an_empty_result(file_tools: FileTools) -> None:
    assert file_tools.failure("glob", pattern="scr/*.py").endswith("similar: src")
    assert file_tools.failure("glob", pattern="src/b.pi").endswith("similar: src/b.py")
    assert "outside" in file_tools.failure("glob", pattern="../*")
    assert "is not a folder" in file_tools.failure("glob", pattern="*", path="a.py")
    assert "is not a folder" in file_tools.failure("glob", pattern="a.py/*")
    assert "empty" in file_tools.failure("glob", pattern="")
    assert "more than" in file_tools.failure("glob", pattern="{a,b}" * 30)


def test_glob_result_is_limited(file_tools: FileTools) -> None:
    write_files(file_tools.folder, {f"many/{n:03}.x": "" for n in range(MAX_LISTED_FILES + 1)})
    lines = file_tools.run("glob", pattern="*.x").split("\n")
    assert len(lines) == MAX_LISTED_FILES + 1
    assert lines[-1].startswith(f"[the {MAX_LISTED_FILES} newest of {MAX_LISTED_FILES + 1}")


@pytest.mark.req("S4-40")
def test_grep_groups_lines_by_file(file_tools: FileTools) -> None:
    assert file_tools.run("grep", pattern=r"^import \w+$") == (
        "a.py\n1:import os\n\nbom.txt\n1:import bom\n\nsrc/b.py\n1:import sys\n3:import os\n\n"
        "wide.txt\n1:import wide"
    )


def test_grep_searches_text_of_any_encoding_only(file_tools: FileTools) -> None:
    output = file_tools.run("grep", pattern="import", limit=100)
    names = [block.partition("\n")[0] for block in output.split("\n\n")]
    assert names == [
        "a.py", "bom.txt", "latin.txt", "src/-v.txt", "src/b.py", "src/notes.md",
        "unterminated", "wide.txt",
    ]  # fmt: skip
    assert "latin.txt\n1:import caf\ufffd" in output


def test_grep_searches_the_requested_path(file_tools: FileTools) -> None:
    assert file_tools.run("grep", pattern="import", path="src/b.py").startswith(
        "src/b.py\n1:import sys"
    )
    assert file_tools.run("grep", pattern="import", path=".env") == ".env\n1:import secret"
    assert file_tools.run("grep", pattern="import", path="build") == "build/out.py\n1:import built"
    assert file_tools.run("grep", pattern="os", glob="src/*.py") == "src/b.py\n3:import os"
    assert (
        file_tools.run("grep", pattern="os", glob="*.{py,md}", path="src")
        == "src/b.py\n3:import os"
    )
    assert file_tools.run("grep", pattern="import", glob="*.yml") == "[no matches]"
    assert file_tools.run("grep", pattern="import", glob="**/.env") == ".env\n1:import secret"
    assert file_tools.run("grep", pattern="import", glob="src/notes.md").startswith("src/notes.md")
    assert file_tools.run("grep", pattern="built", glob="*.py") == "[no matches]"


def test_pattern_that_resembles_an_option_is_a_pattern(file_tools: FileTools) -> None:
    assert file_tools.run("grep", pattern="-v") == "src/-v.txt\n1:-v import"
    assert file_tools.run("grep", pattern="import", path="src/-v.txt") == "src/-v.txt\n1:-v import"
    assert file_tools.run("grep", pattern="--files", glob="-*") == "[no matches]"
    assert file_tools.run("glob", pattern="-*") == "src/-v.txt"


def test_grep_supports_case_and_context(file_tools: FileTools) -> None:
    assert file_tools.run("grep", pattern="IMPORTS") == "[no matches]"
    result = file_tools.run("grep", pattern="IMPORTS", ignore_case=True)
    assert result == "src/notes.md\n1:About imports."
    write_files(file_tools.folder, {"c.txt": "".join(f"{n}\n" for n in range(1, 13))})
    result = file_tools.run("grep", pattern="^(2|4|10)$", path="c.txt", context_lines=1)
    assert result == "c.txt\n1-1\n2:2\n3-3\n4:4\n5-5\n--\n9-9\n10:10\n11-11"


def test_grep_result_is_limited(file_tools: FileTools) -> None:
    write_files(file_tools.folder, {"many/a": "needle\n" * 500, "many/b": "needle\n" * 500})
    output = file_tools.run("grep", pattern="needle", limit=502)
    assert output.count(":needle") == 502
    assert output.endswith("[the first 502 lines of more: narrow the search]")
    assert file_tools.run("grep", pattern="needle", limit=1000).endswith("500:needle")
    write_files(file_tools.folder, {"long": "x" * 100_000 + "needle\n"})
    assert file_tools.run("grep", pattern="needle", path="long") == f"long\n1:{'x' * 500} ..."
    write_files(file_tools.folder, {"wide/a": ("needle" + "y" * 600 + "\n") * 200})
    assert len(file_tools.run("grep", pattern="needle", path="wide")) < 42_000


def test_search_with_too_many_matches_is_ended(file_tools: FileTools) -> None:
    write_files(file_tools.folder, {f"many/{n}": "needle\n" * 1000 for n in range(40)})
    assert "lines of more" in file_tools.run("grep", pattern="needle", limit=2000)


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
def test_invalid_pattern_is_explained(file_tools: FileTools, pattern: str, reason: str) -> None:
    with pytest.raises(ToolError, match=reason):
        file_tools.content("grep", pattern=pattern)


def test_pattern_with_another_meaning_in_python_is_rejected(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "abc\n"})
    file_tools = FileTools(tmp_path, Scanner())
    assert "nested set" in file_tools.failure("grep", pattern="[[:alpha:]]+")
    assert "bad escape" in file_tools.failure("grep", pattern=r"\p{L}")


def test_escaped_backslash_before_n_is_no_line_feed(file_tools: FileTools) -> None:
    write_files(file_tools.folder, {"tex": "\\newline\n"})
    assert file_tools.run("grep", pattern=r"\\new") == "tex\n1:\\newline"


def test_grep_explains_an_unusable_path(file_tools: FileTools) -> None:
    write_files(file_tools.folder, {"huge": b"x\n" * (MAX_FILE_BYTES // 2 + 1)})
    os.mkfifo(file_tools.folder / "pipe")
    assert "up to 10.0 MB" in file_tools.failure("grep", pattern="x", path="huge")
    assert "a binary file" in file_tools.failure("grep", pattern="x", path="data.bin")
    assert "a FIFO" in file_tools.failure("grep", pattern="x", path="pipe")
    assert "b.py does not exist" in file_tools.failure("grep", pattern="x", path="b.py")
    assert "limit" in file_tools.failure("grep", pattern="x", limit=0)
    assert "context_lines" in file_tools.failure("grep", pattern="x", context_lines=-1)


@pytest.mark.parametrize(
    "name", [b"new\nline", b"caf\xe9", b"--hidden", b"a:1:b", b"\xe2\x80\xaertl"]
)
def test_hostile_file_names_are_literal(file_tools: FileTools, name: bytes) -> None:
    shown_name = FileTools(file_tools.folder).root.format_name(
        file_tools.folder / os.fsdecode(name)
    )
    write_files(file_tools.folder, {f"odd/{os.fsdecode(name)}": "needle\n"})
    assert file_tools.run("grep", pattern="needle", path="odd") == f"odd/{shown_name}\n1:needle"
    assert file_tools.run("glob", pattern="*", path="odd") == f"odd/{shown_name}"
    assert "\n" not in shown_name


def test_file_with_late_binary_content_hides_no_other_match(file_tools: FileTools) -> None:
    """ripgrep prints its notice before the name of the next file."""
    files: dict[str, str | bytes] = {f"mix/{n}": "needle\n" for n in range(0, 40, 2)}
    files |= {f"mix/{n}": b"needle\n" + b"x\n" * 90_000 + b"\0" for n in range(1, 20, 2)}
    write_files(file_tools.folder, files)
    output = file_tools.run("grep", pattern="needle", path="mix")
    names = [block.partition("\n")[0] for block in output.split("\n\n")]
    assert names == sorted(f"mix/{n}" for n in range(0, 40, 2))


def test_ripgrep_configuration_of_the_user_is_ignored(file_tools: FileTools) -> None:
    write_files(file_tools.folder, {".ignore": "*.py", ".git/info/exclude": "*.py"})
    assert "a.py" in file_tools.run("glob", pattern="*.py")


@pytest.mark.skipif(len(ENGINES) < 2, reason="needs ripgrep")
@pytest.mark.parametrize(
    "pattern",
    [r"\bos\b", r"import (\w+)", r"^\s*def", r"s$", r"\d", "é|caf", r"(?i)ABOUT",
     r"(?<=import )os", r"(.)\1", "x{2,}", r"\.", "os|sys", r"[A-Z_]"],
)  # fmt: skip
@pytest.mark.parametrize("context_lines", [0, 1])
def test_both_engines_return_the_same_lines(
    tmp_path: Path, pattern: str, context_lines: int
) -> None:
    write_files(tmp_path, FILES)
    first, second = (
        FileTools(tmp_path, engine).run("grep", pattern=pattern, context_lines=context_lines)
        for engine in ENGINES
    )
    # For an expression with another engine, `rg` searches only UTF-8 and reports it.
    assert first == second.removesuffix(f"\n\n{SOME_LEFT}")


@pytest.mark.skipif(len(ENGINES) < 2, reason="needs ripgrep")
@pytest.mark.parametrize(
    "pattern", ["**", "*.py", "*.{py,md}", "s*/**", "**/b.*", "[a-c].py", "*.p?", ".*"]
)
def test_both_engines_return_the_same_files(tmp_path: Path, pattern: str) -> None:
    write_files(tmp_path, FILES)
    set_ascending_mtimes(tmp_path, *FILES)
    first, second = (FileTools(tmp_path, engine).run("glob", pattern=pattern) for engine in ENGINES)
    assert first == second


def test_endless_regular_expression_is_ended(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "a" * 60 + "\n"})
    _, grep = search_tools(Root(tmp_path), Scanner(), within_s=0.8)
    began = time.monotonic()
    with pytest.raises(ToolError, match=r"longer than 0\.8 s"):
        asyncio.run(grep.run({"pattern": "(a+)+b"}))
    assert time.monotonic() - began < 40


@dataclass(frozen=True)
class SleepingEngine:
    """An engine that runs for a long time without output and writes its process id to a file."""

    noted: Path

    def command(self, query: FileQuery) -> Sequence[str]:
        code = f"import os, time; open({str(self.noted)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        return [sys.executable, "-c", code]


def test_cancelled_search_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    glob, _ = search_tools(Root(tmp_path), SleepingEngine(pid_file))

    async def cancelled() -> int:
        searching = asyncio.create_task(glob.run({"pattern": "*"}))
        while not (pid_file.exists() and pid_file.read_text()):
            await asyncio.sleep(0.01)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        return int(pid_file.read_text())

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
class FailingEngine:
    """An engine that prints partial results and an error, like `rg`."""

    printed: bytes

    def command(self, query: FileQuery) -> Sequence[str]:
        code = f"import sys; sys.stdout.buffer.write({self.printed!r}); sys.exit(2)"
        return [sys.executable, "-c", code]


def test_incomplete_search_does_not_report_an_empty_result(tmp_path: Path) -> None:
    assert FileTools(tmp_path, FailingEngine(b"")).run("grep", pattern="x") == SOME_LEFT
    result = FileTools(tmp_path, FailingEngine(b"./a.txt\x001:x\n")).run("grep", pattern="x")
    assert result == f"a.txt\n1:x\n\n{SOME_LEFT}"
    assert (
        FileTools(tmp_path, FailingEngine(b"./a.txt\0")).run("glob", pattern="*")
        == f"a.txt\n{SOME_LEFT}"
    )


def test_engine_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    file_tools = FileTools(tmp_path, Ripgrep(str(tmp_path / "nothing")))
    assert "could not be started" in file_tools.failure("grep", pattern="x")


def test_search_imports_nothing_from_the_searched_folder(tmp_path: Path) -> None:
    hostile = "open('was-here', 'w')\nraise SystemExit(3)\n"
    write_files(
        tmp_path,
        {"re.py": hostile, "json.py": hostile, "harken/__init__.py": hostile, "os.py": hostile},
    )
    file_tools = FileTools(tmp_path, Scanner())
    assert "re.py" in file_tools.run("glob", pattern="*.py")
    assert not (tmp_path / "was-here").exists()


def test_python_engine_is_used_without_ripgrep() -> None:
    assert isinstance(engine_for(None), Scanner)
    result = ripgrep()
    assert result is None or isinstance(engine_for(result), Ripgrep)


def test_engines_implement_the_protocol() -> None:
    engines: list[Engine] = [Scanner(), Ripgrep("/usr/bin/rg")]
    assert all(
        isinstance(part, str)
        for engine in engines
        for part in engine.command(FileQuery(pattern="x"))
    )
