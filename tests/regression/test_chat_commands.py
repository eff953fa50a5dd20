"""`/model`, `/clear`, `!command`, and how long a command runs and a model is waited for."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.agents.runtime import AgentRuntime, ModelSettings, Observers
from harken.chat.commands.base import is_command
from tests.agent_kit import Stage, open_stage, script_model
from tests.cli.chat_kit import Talking
from tests.provider.server import Provider
from tests.provider.wire import WIRES, Wire
from tests.terminal.kit import ENTER, PROGRAM, Terminal

SCRIPT = """\
rules:
  - pattern: '^brew'
    calls: [{brew: {what: slow tea}}]
  - pattern: '(?s).*'
    expand: true
    answer: 'I read <\\g<0>>.'
"""


class Named:
    """A model with a name that answers with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._model = script_model(main=[f"I am {name}."] * 9)

    def stream(self, request: Any) -> Any:
        """Answer."""
        chunks: Any = self._model.stream(request)
        return chunks


@pytest.fixture
def one(tmp_path: Path) -> Stage:
    models = {name: Named(name) for name in ("x/small", "x/large")}
    runtime = AgentRuntime(
        model=models["x/small"], models=ModelSettings(resolver=lambda name: models[name])
    )
    return open_stage(tmp_path, models["x/small"], runtime=runtime)


def test_the_model_of_the_agent_can_be_changed_in_the_chat(one: Stage) -> None:
    """A chat had to be left and resumed with --model to go on with another model.

    There was no command for it.
    Now `/model NAME` changes it from the next call on, and the log says so.
    """
    talk = Talking(one)
    assert one.ask("Who?") == "I am x/small."
    assert "main has x/small\n  1 x/small\n  2 x/large" in talk("/model")
    assert talk("/model x/large") == "main now uses x/large"
    assert one.ask("Who?") == "I am x/large."
    [configured] = one.select_lines(event_type="agent_configured")
    assert configured["language_model"] == "x/large"
    assert talk("/model 1") == "main now uses x/small"
    assert "model number 99" in talk("/model 99")


def test_clear_begins_a_new_session(one: Stage) -> None:
    """A chat had to be left to begin with an empty context.

    `/compact` and `/fork` both keep what was said.
    Now `/clear` begins a new session and leaves the log of this one as it is.
    """
    one.ask("Who?")
    talk = Talking(one)
    talk("/clear")
    assert talk.onward is not None
    assert talk.onward.ctx is None
    assert one.session.path.stem in talk.onward.note


def test_a_shell_command_of_the_user_is_logged_and_read_by_the_agent(one: Stage) -> None:
    """To show an agent the output of a command, the user had to copy it into the chat.

    A text that begins with an exclamation mark was said to the agent.
    Now it is run, logged as an act of the user, and the agent reads what came of it.
    """
    assert is_command("!ls", {})
    assert not is_command("!", {})
    assert not is_command("!!! look", {})
    talk = Talking(one)
    assert talk("!echo green $((6 * 7))") == "exit code 0\ngreen 42"
    assert [row["content"] for row in one.select_lines(agent_id="user")] == [
        "!echo green $((6 * 7))",
        "exit code 0\ngreen 42",
    ]
    [*_, told] = one.session.context(one.root.agent_id)
    assert "!echo green $((6 * 7))] exit code 0\ngreen 42" in str(told.content)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A chat in a terminal."""
    script = tmp_path / "tea.yaml"
    script.write_text(SCRIPT)
    with Terminal(sys.executable, PROGRAM, tmp_path / "home", script) as started:
        started.wait("›")
        yield started


def test_a_shell_command_is_typed_with_an_exclamation_mark(terminal: Terminal) -> None:
    """In the chat `!ls` was sent to the model.

    There was no way to run a command without leaving the chat.
    Now its output is shown below it.
    """
    terminal.say("!echo one; echo two; false")
    terminal.wait("› !echo one; echo two; false\n\n  exit code 1\n  one\n  two")
    terminal.say("and")
    terminal.wait("I read <")


def test_waiting_for_an_answer_is_no_running_time(terminal: Terminal) -> None:
    """A command that had waited a minute for a yes was shown as running for a minute.

    Its clock started when the model had called it.
    Now it starts when the user has answered.
    """
    terminal.type("brew" + ENTER)
    terminal.wait("y yes   a always")
    until = time.monotonic() + 4
    while time.monotonic() < until:
        terminal.read(0.2)
    terminal.type("y")
    terminal.wait("cup 3")
    assert not re.search(r"slow tea\) [4-9]s", terminal.written)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_retry_of_a_model_call_is_told_with_its_waiting_time(tmp_path: Path, wire: Wire) -> None:
    """A provider that was busy made an agent look as if it hung.

    The SDK waited and asked again without a word.
    Now the user is told each time, with the time that is waited.
    """
    told: list[str] = []
    busy = wire.error(529, "later", retry_after_ms="100")
    with Provider([busy, busy, wire.answer("It is Jill.")]) as provider:
        model = wire.model(provider, max_retries=2)
        runtime = AgentRuntime(model=model, observers=Observers(on_notice=told.append))
        assert open_stage(tmp_path, model, runtime=runtime).ask("Who?") == "It is Jill."
    assert [line.partition("; ")[2] for line in told] == [
        "retrying in 0.1 s (retry 1 of 2)",
        "retrying in 0.1 s (retry 2 of 2)",
    ]
