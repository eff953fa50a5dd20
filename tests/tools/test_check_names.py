"""`tools/check_names.py` notices each kind of name and docstring that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_names


def violations(folder: Path, check: str) -> list[str]:
    (found,) = [one for one in check_names.measure(folder) if one.name == check]
    return found.violations


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
def test_each_check_notices_its_violation(tmp_path: Path, text: str, check: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    module = package / "module.py"
    module.write_text(text)
    assert len(violations(package, check)) == 1
    module.write_text('"""Return the commit."""\n\nMAX_FILES = 3\n\n\ndef read_commit(name): ...\n')
    assert violations(package, check) == []


def test_names_of_modules_and_classes_and_the_size_of_folders_are_checked(tmp_path: Path) -> None:
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


def test_a_limit_that_is_exceeded_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "commits.py").write_text("")
    assert check_names.main([], package) == 0
    (package / "opinions.py").write_text("")
    assert check_names.main([], package) == 1
    assert "names: module names: 1, limit 0; see --list" in capsys.readouterr().err
    check_names.main(["--list", "module"], package)
    assert "package/opinions.py" in capsys.readouterr().out
