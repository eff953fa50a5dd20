"""tools/req.py on a small project made for the purpose."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REQ = Path(__file__).parents[2] / "tools" / "req.py"

TESTS = """
import pytest

@pytest.mark.req("S0-01", "S0-02")
def test_good():
    pass

@pytest.mark.req("S0-02")
@pytest.mark.parametrize("n", [1, 2])
def test_half(n):
    assert n == 1

@pytest.mark.req("S0-03")
@pytest.mark.parametrize("n", [1, 2])
def test_two(n):
    pass

@pytest.mark.req("S0-03")
@pytest.mark.skip
def test_skipped():
    pass

@pytest.mark.req("S0-05")
def test_only_skipped():
    pytest.skip()

@pytest.fixture
def broken():
    yield
    raise OSError

@pytest.mark.req("S0-06")
def test_teardown(broken):
    pass

def test_names_nothing():
    raise AssertionError
"""

SETTINGS = """
[tool.pytest.ini_options]
addopts = "--strict-markers"
markers = ["req(id, ...): ids"]
"""

ONLY_XDIST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
"""The plug-ins that this needs: importing all that are installed takes longer than the run."""


def req(
    project: Path, *words: str, tests: str = TESTS, jobs: int = 0
) -> subprocess.CompletedProcess[str]:
    (project / "pyproject.toml").write_text(SETTINGS)
    (project / "test_it.py").write_text(tests)
    # The run that this test belongs to must not reach into the run that it starts.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    return subprocess.run(
        [sys.executable, REQ, *words],
        cwd=project,
        env={**env, **ONLY_XDIST, "JOBS": str(jobs)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("jobs", [0, 2])
def test_each_named_requirement_gets_a_line_with_its_tests(tmp_path: Path, jobs: int) -> None:
    run = req(tmp_path, jobs=jobs)
    assert run.returncode == 1
    assert run.stdout.splitlines() == [
        "S0-01 pass test_it.py::test_good",
        "S0-02 fail test_it.py::test_good test_it.py::test_half test_it.py::test_half[2] failed",
        "S0-03 pass test_it.py::test_skipped skipped test_it.py::test_two",
        "S0-05 missing test_it.py::test_only_skipped skipped",
        "S0-06 fail test_it.py::test_teardown failed",
    ]


def test_range_lists_requirements_without_tests(tmp_path: Path) -> None:
    run = req(tmp_path, "S0-03..S0-05", "S4-53", "D-01..D-02")
    assert run.returncode == 1
    assert [line.split()[:2] for line in run.stdout.splitlines()] == [
        ["D-01", "missing"],
        ["D-02", "missing"],
        ["S0-03", "pass"],
        ["S0-04", "missing"],
        ["S0-05", "missing"],
        ["S4-53", "missing"],
    ]
    assert "test_half" not in run.stdout + run.stderr


def test_exit_code_is_0_if_all_requested_tests_pass(tmp_path: Path) -> None:
    run = req(tmp_path, "S0-01,S0-03")
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 2


def test_a_module_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    run = req(tmp_path, "S0-01", tests="import nothing_of_this_name")
    assert (run.returncode, run.stdout) == (1, "S0-01 missing\n")


def test_mark_with_an_invalid_id_fails(tmp_path: Path) -> None:
    run = req(tmp_path, tests=TESTS.replace("S0-01", "S0-1"))
    assert run.returncode == 1
    assert "S0-1 fail (no requirement id) test_it.py::test_good\n" in run.stdout


@pytest.mark.parametrize("word", ["S0", "S0-02..S0-01", "S0-01..S1-02", "S0-1"])
def test_invalid_id_argument_is_an_error(tmp_path: Path, word: str) -> None:
    run = req(tmp_path, word)
    assert run.returncode == 2
    assert word in run.stderr
