"""Where the commands of a chat run: what is configured, what is said, what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harken.chat.sandbox import build_shell_sandbox
from harken.config.home import Home
from harken.config.settings import Settings, load_settings
from harken.errors import ConfigError
from tests.cli.kit import Cli

BASH = """\
rules:
  - pattern: run (.*)
    calls: [{bash: {command: '\\1'}}]
  - answer: Done.
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home, and a working folder beside it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "home").mkdir(mode=0o700)
    return Home(str(tmp_path / "home"))


def configured(home: Home, text: str) -> Settings:
    (home.folder / "config.toml").write_text(text)
    return load_settings(home, environ={})


def works(home: Home) -> None:
    """Skip a test where there is no sandbox."""
    found = build_shell_sandbox(home, Settings(), outputs=home.folder / "outputs")
    if found.sandbox is None:
        pytest.skip(found.notes[0])


def test_a_sandbox_is_used_where_there_is_one(home: Home) -> None:
    works(home)
    found = build_shell_sandbox(home, configured(home, ""), outputs=home.folder / "outputs")
    assert found.sandbox is not None
    assert (found.notes, found.refusal, found.sandbox.network) == ((), "", False)
    assert home.folder.resolve() in found.sandbox.private


def test_an_allowed_folder_that_is_not_there_changes_nothing(home: Home) -> None:
    works(home)
    settings = configured(home, "[tools]\nallow_folders = ['not-there']\n")
    assert build_shell_sandbox(home, settings, outputs=home.folder / "outputs").sandbox is not None


def test_the_network_is_let_in_where_the_user_says_so(home: Home) -> None:
    works(home)
    settings = configured(home, "[tools]\nnetwork = true\npass_env = ['GITHUB_TOKEN']\n")
    found = build_shell_sandbox(home, settings, outputs=home.folder / "outputs")
    assert found.sandbox is not None
    assert found.sandbox.network
    assert settings.pass_env == ("GITHUB_TOKEN",)


def test_without_one_a_person_is_told_what_that_means(home: Home) -> None:
    settings = configured(home, "[tools]\nsandbox = 'off'\n")
    found = build_shell_sandbox(home, settings, outputs=home.folder / "outputs")
    [note] = found.notes
    assert note.startswith(
        "Commands run without a sandbox: the shell of an agent has all your rights"
    )
    assert (found.sandbox, found.refusal) == (None, "")


def test_the_command_line_counts_before_the_configuration(home: Home) -> None:
    settings = configured(home, "[tools]\nsandbox = 'on'\n")
    assert build_shell_sandbox(home, settings, outputs=home.folder, wanted="off").sandbox is None


def test_where_one_is_required_and_there_is_none_no_command_runs(home: Home) -> None:
    """A folder that bubblewrap cannot mount stands for all that may be wrong with a machine."""
    odd = f"/proc/{os.getpid()}/task"
    settings = configured(home, f"[tools]\nsandbox = 'on'\nallow_folders = ['{odd}']\n")
    found = build_shell_sandbox(home, settings, outputs=home.folder / "outputs")
    assert found.sandbox is None
    assert found.refusal.startswith("it requires a sandbox, which is not available: ")
    assert found.notes[0].startswith("Commands do not run: ")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("sandbox = 'off'", "tools.sandbox would weaken the sandbox"),
        ("sandbox = 'auto'", "tools.sandbox would weaken the sandbox"),
        ("network = true", "tools.network would give commands network access"),
        ("pass_env = ['GITHUB_TOKEN']", "tools.pass_env would pass on your secrets"),
    ],
)
def test_a_project_cannot_widen_what_commands_may_do(cli: Cli, said: str, reason: str) -> None:
    trusted(cli, f"[tools]\n{said}\n")
    assert f"{reason}; only config.toml in your home folder may set it" in cli.refused("models")


def test_a_project_may_require_a_sandbox(cli: Cli) -> None:
    trusted(cli, "[tools]\nsandbox = 'on'\nnetwork = false\n")
    assert load_settings(Home(str(cli.home)), environ={}).sandbox == "on"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("sandbox = 'maybe'", "tools.sandbox: must be one of auto, on, off"),
        ("network = 'yes'", "tools.network: must be true or false"),
        ("pass_env = ['A B']", "tools.pass_env: must contain names of variables"),
    ],
)
def test_what_is_no_setting_is_refused_with_its_line(home: Home, said: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"line 2: {reason}"):
        configured(home, f"[tools]\n{said}\n")


def test_a_chat_runs_its_commands_in_the_sandbox(cli: Cli, tmp_path: Path) -> None:
    works(Home(str(cli.home)))
    script = tmp_path / "bash.yaml"
    script.write_text(BASH)
    chat: Any = ["chat", "--model", f"scripted:{script}", "--permission", "all", "--json", "-p"]
    ran = cli.ok(*chat, f"run ls -a {cli.home}; echo x > {cli.home}/made; echo in $TMPDIR")
    assert ran.code == 0
    assert "without a sandbox" not in cli.whole_err
    assert not (cli.home / "made").exists()
    [log] = cli.sessions()
    assert "in /tmp" in log.read_text()
    assert "store.db" not in log.read_text()


def test_a_chat_without_one_says_so_when_it_begins(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "bash.yaml"
    script.write_text(BASH)
    cli.ok("chat", "--model", f"scripted:{script}", "--sandbox", "off", "-p", "hello")
    said = "Commands run without a sandbox: the shell of an agent has all your"
    assert said in cli.whole_err


def trusted(cli: Cli, text: str) -> None:
    folder = Path.cwd() / ".harken"
    folder.mkdir()
    (folder / "config.toml").write_text(text)
    os.chmod(folder, 0o700)  # noqa: PTH101
    Path(cli.home).mkdir(mode=0o700, exist_ok=True)
    (cli.home / "trusted.json").write_text(f'{{"trusted": ["{Path.cwd().resolve()}"]}}')
