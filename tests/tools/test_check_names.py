"""`tools/check_names.py` reports each kind of name and docstring that it checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_names


def violations(folder: Path, check: str) -> list[str]:
    (match,) = [candidate for candidate in check_names.measure(folder) if candidate.name == check]
    return match.violations


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("found = 1", "vague bindings"),
        ("def read(one): ...", "vague bindings"),
        ("def _said_in(entry): ...", "functions named by a participle"),
        ('"""Return what is there."""', "docstrings with what or who"),
        ('"""How it is done."""', "docstrings that begin with a question word"),
        ('class A:\n    """Somebody asks."""', "docstrings with somebody or nobody"),
        ('"""Return it; None: it is gone."""', "docstrings with `; None`"),
        ('"""A.\n\nOne idea: b.\n"""', "labels such as 'One idea:'"),
        ("MOST_FILES = 3", "constants such as MOST_"),
    ],
)
def test_check_reports_its_violation(tmp_path: Path, text: str, check: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    module = package / "module.py"
    module.write_text(text)
    assert len(violations(package, check)) == 1
    module.write_text('"""Return the commit."""\n\nMAX_FILES = 3\n\n\ndef read_commit(name): ...\n')
    assert violations(package, check) == []


def test_modules_classes_and_folders_are_checked(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for number in range(check_names.MAX_FILES_PER_FOLDER):
        (package / f"module_{number}.py").write_text("class A: ..." if number < 2 else "")
    large = f"folders of more than {check_names.MAX_FILES_PER_FOLDER} files"
    assert violations(package, large) == []
    (package / "opinions.py").write_text("")
    assert violations(package, large) == ["package: 16 files"]
    assert violations(package, "module names") == ["package/opinions.py"]
    assert violations(package, "public class names used twice") == [
        "A: package/module_0.py, package/module_1.py"
    ]


DATACLASS = "@dataclass(frozen=True, slots=True)\nclass Size:\n    width: int = 0\n"


@pytest.mark.parametrize(
    "text",
    [
        DATACLASS,
        DATACLASS.replace(":\n", "(Generic[T]):\n", 1),
        "import dataclasses\n@dataclasses." + DATACLASS[1:],
    ],
)
def test_dataclass_that_could_be_a_struct_is_reported(tmp_path: Path, text: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "size.py").write_text(text)
    [violation] = violations(package, "dataclasses that could be structs")
    assert violation.endswith(" Size")


@pytest.mark.parametrize(
    "text",
    [
        "class Size(msgspec.Struct, frozen=True):\n    width: int = 0\n",
        "@check_arguments\n" + DATACLASS,
        DATACLASS.replace("Size", "Size(Sequence[int])"),
        DATACLASS.replace("= 0", "= field(default=0, repr=False)"),
    ],
)
def test_dataclass_that_cannot_be_a_struct_is_allowed(tmp_path: Path, text: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "size.py").write_text(text)
    assert violations(package, "dataclasses that could be structs") == []


def test_dataclasses_of_light_modules_are_allowed(tmp_path: Path) -> None:
    module = tmp_path / "harken" / "cli" / "command_tree.py"
    module.parent.mkdir(parents=True)
    module.write_text(DATACLASS)
    assert violations(tmp_path / "harken", "dataclasses that could be structs") == []
    for place in check_names.LIGHT_MODULES:
        assert (check_names.SOURCE.parent / place).is_file(), place


def test_main_fails_above_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "commits.py").write_text("")
    tests = tmp_path / "tests"
    tests.mkdir()
    assert check_names.main([], package, tests) == 0
    (package / "opinions.py").write_text("")
    assert check_names.main([], package, tests) == 1
    assert "names: module names: 1, limit 0; see --list" in capsys.readouterr().err
    check_names.main(["--list", "module"], package, tests)
    assert "package/opinions.py" in capsys.readouterr().out


def test_test_helpers_and_modules_are_checked(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "commits_kit.py").write_text(
        "class Commit: ...\n\ndef read_commit(): ...\n\ndef test_found(): ...\n\ndef _told(): ...\n"
    )
    assert [check.violations for check in check_names.measure_tests(tests)] == [[], []]
    (tests / "test_told.py").write_text(
        "class Told: ...\n\ndef found(): ...\n\ndef named_by(): ...\n"
    )
    helpers, modules = check_names.measure_tests(tests)
    assert helpers.violations == [
        "tests/test_told.py:1 Told",
        "tests/test_told.py:3 found",
        "tests/test_told.py:5 named_by",
    ]
    assert modules.violations == ["tests/test_told.py"]
