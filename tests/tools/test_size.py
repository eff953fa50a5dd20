"""tools/size.py on small projects made for the purpose."""

import subprocess
import sys
from pathlib import Path

import pytest

SIZE = Path(__file__).parents[2] / "tools" / "size.py"


def size(project: Path, *, src: str = "", tests: str = "") -> subprocess.CompletedProcess[str]:
    for folder, text in (("src", src), ("tests", tests)):
        (project / folder).mkdir()
        (project / folder / "one.py").write_text(text)
    return subprocess.run(
        [sys.executable, SIZE], cwd=project, capture_output=True, text=True, check=False
    )


def function(body_lines: int, docstring: str = "", parameters: str = "") -> str:
    return f"def f({parameters}):\n{docstring}" + "    x = 1\n" * body_lines


def test_a_small_project_is_within_the_budget(tmp_path: Path) -> None:
    run = size(tmp_path, src=function(8), tests=function(4))
    assert run.returncode == 0, run
    assert "src: 1 files, 9 lines, median 9 (aim 150); 1 functions, median body 8" in run.stdout
    assert run.stdout.endswith("size: all within the budget\n")


def test_empty_folders_are_within_the_budget(tmp_path: Path) -> None:
    assert size(tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("src", "breach"),
    [
        (function(61), "src/one.py:1 f: body of 61 lines, stop 60"),
        ("async " + function(61), "src/one.py:1 f: body of 61 lines, stop 60"),
        ("x = 1\n" * 501, "src/one.py: 501 lines, stop 500"),
        (function(1, parameters="a, b, c, /, d, e, *, f, g, h"), "f: 8 parameters, stop 7"),
        (function(2) * 23 + function(41), "src/one.py:70 f: 41 lines"),
    ],
)
def test_each_stop_is_named_and_fails(tmp_path: Path, src: str, breach: str) -> None:
    run = size(tmp_path, src=src)
    assert run.returncode == 1
    assert breach in run.stdout


@pytest.mark.parametrize(
    "src",
    [
        function(60, docstring='    """' + "\n" * 40 + '    """\n') + function(1) * 30,
        function(1, parameters="self, a, b, c, d, e, f, g"),
        function(2) * 24 + function(41),  # one in 25 is 4 %
    ],
)
def test_up_to_the_stop_is_allowed(tmp_path: Path, src: str) -> None:
    run = size(tmp_path, src=src)
    assert run.returncode == 0, run.stdout


def test_tests_may_have_a_tail_and_parameters_but_no_long_function(tmp_path: Path) -> None:
    tail = function(60, parameters="a, b, c, d, e, f, g, h")
    assert size(tmp_path, tests=tail).returncode == 0


def test_a_long_function_in_tests_fails(tmp_path: Path) -> None:
    assert "tests/one.py:1 f: body of 61" in size(tmp_path, tests=function(61)).stdout
