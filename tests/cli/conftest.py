from pathlib import Path

import pytest

from tests.cli.kit import SCRIPT, Cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`harken` with an empty home folder, in an empty folder; Claude Code has none at all."""
    home = tmp_path / "home"
    monkeypatch.setenv("HARKEN_HOME", str(home))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = Cli(home, capsys)
    made.environ["CLAUDE_CONFIG_DIR"] = str(tmp_path / "claude")
    return made


@pytest.fixture
def demo(cli: Cli) -> Cli:
    """The same, after `harken demo`."""
    cli.ok("demo")
    return cli


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The name of a scripted model: `hello`, `make Ann`."""
    path = tmp_path / "script.yaml"
    path.write_text(SCRIPT)
    return f"scripted:{path}"
