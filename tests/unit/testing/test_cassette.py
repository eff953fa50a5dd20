"""The pytest plugin in a pytest process of its own, used as another project would use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[3] / "src"
TESTS = """
import asyncio
import pytest
from harken import Message, ScriptedModel
from harken.core.stream import StreamAccumulator as Draft
from harken.testing import request_of

CALLS = []

def real():
    CALLS.append(1)
    return ScriptedModel([{"answer": "Hello, sk-proj-abcdefghijklmnopqrstuvwx"}], "real")

def ask(model, text):
    async def asked():
        draft = Draft()
        async for chunk in model.stream(request_of(text)):
            draft.add(chunk)
        return draft.message().content
    return asyncio.run(asked())

@pytest.mark.parametrize("name", ["Jack", "Jill/x"])
def test_it_answers(harken_cassette, name):
    assert ask(harken_cassette.model(real, name="real"), name).startswith("Hello, ")
    assert len(CALLS) == EXPECTED

def test_nothing_of_this_is_kept(harken_cassette):
    ask(harken_cassette.model(real), "Hi")
    assert FINE
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-p", "harken.testing.cassette", *options, "."],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write_test_file(
    folder: Path, expected: str = "len(CALLS)", fine: str = "True", asked: str = "Hi"
) -> None:
    text = TESTS.replace("EXPECTED", expected).replace("FINE", fine).replace('"Hi"', repr(asked))
    (folder / "test_it.py").write_text(text)


def test_test_is_recorded_once_and_replayed_offline(tmp_path: Path) -> None:
    write_test_file(tmp_path, fine="False")
    ran = run_pytest(tmp_path)
    assert "1 failed, 2 passed" in ran.stdout, ran.stdout
    files = sorted(path.name for path in (tmp_path / "cassettes").iterdir())
    assert files == [
        "test_it.test_it_answers.Jack.jsonl",
        "test_it.test_it_answers.Jill_x-2cde175b.jsonl",
    ]
    assert "sk-proj" not in "".join(p.read_text() for p in (tmp_path / "cassettes").iterdir())
    write_test_file(tmp_path, expected="0")
    ran = run_pytest(tmp_path, "-k", "answers", "--harken-record", "none")
    assert "2 passed" in ran.stdout, ran.stdout


ALIKE = """

@pytest.mark.parametrize("name", ["a/b", "a b", "x" * 200 + "1", "x" * 200 + "2"])
def test_one(harken_cassette, name):
    ask(harken_cassette.model(real), name)

def test_one_a_b(harken_cassette):
    ask(harken_cassette.model(real), "another")
"""


def test_tests_with_similar_names_have_separate_cassettes(tmp_path: Path) -> None:
    write_test_file(tmp_path)
    with (tmp_path / "test_it.py").open("a") as file:
        file.write(ALIKE)
    ran = run_pytest(tmp_path, "-k", "one")
    assert "5 passed" in ran.stdout, ran.stdout
    assert len(list((tmp_path / "cassettes").iterdir())) == 5


def test_interrupted_test_leaves_no_cassette(tmp_path: Path) -> None:
    write_test_file(tmp_path)
    with (tmp_path / "test_it.py").open("a") as file:
        file.write(
            "\ndef test_cut(harken_cassette):\n"
            "    ask(harken_cassette.model(real), 'first')\n    raise KeyboardInterrupt\n"
        )
    assert "KeyboardInterrupt" in run_pytest(tmp_path, "-k", "cut").stdout
    assert not (tmp_path / "cassettes").exists()


def test_miss_fails_the_test_with_the_nearest_difference(tmp_path: Path) -> None:
    write_test_file(tmp_path)
    assert "3 passed" in run_pytest(tmp_path).stdout
    write_test_file(tmp_path, asked="Ho")
    ran = run_pytest(tmp_path, "-k", "kept")
    assert "1 failed" in ran.stdout
    assert "recorded user 'Hi', asked user 'Ho'" in ran.stdout
    ran = run_pytest(tmp_path, "-k", "kept", "--harken-record=new")
    assert "1 passed" in ran.stdout, ran.stdout


def test_plugin_imports_nothing_in_a_project_that_does_not_use_it() -> None:
    code = (
        "import sys; import pytest; before = set(sys.modules); import harken.testing.cassette;"
        "print(sorted(m for m in set(sys.modules) - before if m.startswith('harken')))"
    )
    environ = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == (
        "['harken', 'harken.core', 'harken.core.lazy', 'harken.testing', 'harken.testing.cassette']"
    )


def test_testing_package_exports_its_documented_names() -> None:
    import harken.testing as kit

    assert sorted(kit.__all__) == list(kit.__all__)
    assert all(getattr(kit, name) is not None for name in kit.__all__)
    assert set(kit.__all__) <= set(dir(kit))
    with pytest.raises(AttributeError, match="nothing"):
        _ = kit.nothing  # type: ignore[attr-defined]
