from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.terminal.kit import HARKEN, PROGRAM, Terminal

Chat: TypeAlias = Callable[..., Terminal]

SCRIPT = """\
rules:
  - pattern: '^hello'
    answer: Hi **there**, friend.
    usage: {input_tokens: 1500, output_tokens: 12, cache_read_tokens: 900}
  - pattern: '^slow'
    answer: "First paragraph.\\n\\nSecond paragraph that goes on ON"
    delay_s: 20
  - pattern: '^briefly'
    answer: "One two three four five."
    delay_s: 1.5
  - pattern: '^markdown'
    thinking: I shall show what Markdown there is.
    answer: |
      # Tea

      - green
      - *black*

      ```python
      kettle = "on"
      ```

      | cup | size |
      |-----|------|
      | big | 3 dl |
  - pattern: '^fail'
    answer: I was about to say
    error: the server is overloaded
  - pattern: '^hostile'
    answer: "a\\e]0;owned\\a b\\e[2J c [click](http://x.y/\\e]8;;) d\\e[31m e &#x202e;f \\u009b2J"
  - pattern: '^wide'
    answer: "日本語のお茶はとても美味しいです。 🍵🍵🍵 👨‍👩‍👧 and more words than one row can hold at all"
  - pattern: '^many'
    answer: MANY
  - pattern: '^make Ann'
    answer: I will ask her.
    calls: [{task: {name: Ann, instructions: You are Ann., prompt: "Tea or coffee?"}}]
  - agent: Ann
    answer: "Tea.\\nHot.\\nWith milk.\\nIn a cup.\\nOn a tray.\\nAt five."
  - pattern: '^brew'
    calls: [{brew: {what: green tea}}]
  - pattern: '^edit'
    calls: [{edit: {path: menu.txt}}]
  - pattern: '^ask'
    calls: [{ask_user: {question: "Which tea?", options: [green tea, black tea]}}]
  - pattern: '^both'
    calls:
      - task: {name: Bob, instructions: You are Bob., prompt: brew}
      - task: {name: Cleo, instructions: You are Cleo., prompt: edit it}
  - pattern: '(?s).*'
    expand: true
    answer: 'I heard <\\g<0>>.'
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The rules of a scripted model."""
    path = tmp_path / "tea.yaml"
    many = "\\n\\n".join(f"Paragraph {number}." for number in range(40))
    text = SCRIPT.replace("MANY", f'"{many}"').replace(" ON", " and on" * 100)
    path.write_text(text)
    return path


@pytest.fixture
def chat(tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    """Start `harken chat` in a terminal, or the program whose tools ask (`asks`)."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "recipe.txt").write_text("tea")
    monkeypatch.chdir(here)
    home = tmp_path / "home"
    with ExitStack() as stack:

        def start(*arguments: str, asks: bool = False, **options: Any) -> Terminal:
            command: list[str | Path] = [HARKEN, "chat", "--home", home, *arguments]
            if not arguments:
                command += ["--model", f"scripted:{script}"]
            if asks:
                command = [sys.executable, PROGRAM, home, script]
            terminal = stack.enter_context(Terminal(*command, **options))
            terminal.wait(">" if options.get("TERM") == "dumb" else "›")
            return terminal

        yield start


@pytest.fixture
def log(tmp_path: Path) -> Callable[[], str]:
    """Return the text of the log of the only session."""

    def read() -> str:
        [path] = (tmp_path / "home" / "sessions").glob("*.jsonl")
        return path.read_text()

    return read
