"""Trusting a folder at a terminal: what it brings is shown first, and a yes is asked for."""

from __future__ import annotations

from pathlib import Path

from tests.terminal.kit import ENTER, HARKEN, Terminal


def test_a_person_sees_what_a_project_brings_before_it_counts(tmp_path: Path) -> None:
    hook = tmp_path / "project" / ".harken" / "hooks" / "gentle.md"
    hook.parent.mkdir(parents=True)
    hook.write_text("---\ntools: [bash]\n---\nBe gentle.")
    home = tmp_path / "home"
    command: list[str | Path] = [HARKEN, "trust", tmp_path / "project", "--home", home]
    for answer, said in ((ENTER, "Not trusted: "), ("y" + ENTER, "Trusted: ")):
        with Terminal(*command, columns=120) as terminal:
            terminal.wait(
                "Not trusted yet: ", "hook gentle: the model judges", "tools bash", "Trust"
            )
            assert not (home / "trusted.json").exists()
            terminal.type(answer)
            terminal.wait(said)
            assert terminal.end() == 0
    assert (home / "trusted.json").exists()
    with Terminal(*command, columns=120) as terminal:
        terminal.wait("Already trusted: ")
        assert terminal.end() == 0
