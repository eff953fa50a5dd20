"""Tools, hooks and calls that are wrong in themselves, or come too early or too late, say so.

A hook that was not registered, or had no `judge`, made the *next* run die; one that raised was a
line of the session log only; a call on a closed session advised to make room on the disk. Now each
is refused at once, and the failure of a hook reaches `logging` with its traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harken
from harken.agents.agent import log_birth
from tests.wrong_uses_kit import (
    H,
    Stage,
    WrongUse,
    ask,
    check_error,
    forecasts,
    hook_class,
    later_forecasts,
    log_birth_twice,
    ok,
    start_late,
    undescribed,
    untyped,
    weather,
)

TOOLS: dict[str, WrongUse] = {
    "a tool without a docstring": (
        lambda _: H.tool(undescribed),
        TypeError,
        "undescribed: a tool needs a docstring",
    ),
    "a function without a docstring in a world": (
        lambda _: H.LocalWorld([undescribed]),
        TypeError,
        "undescribed: a tool needs a docstring",
    ),
    "a tool without types": (lambda _: H.tool(untyped), TypeError, "argument city needs a type"),
    "a tool that yields": (lambda _: H.tool(forecasts), TypeError, "this function yields"),
    "an async tool that yields": (
        lambda _: H.tool(later_forecasts),
        TypeError,
        "this function yields",
    ),
    "a name in place of a function": (
        lambda _: H.tool("weather"),
        TypeError,
        "function must be callable or None, not 'weather'",
    ),
    "a tool of a tool": (lambda _: H.tool(H.tool(weather)), TypeError, "is already a tool"),
    "a misspelt option of a tool": (
        lambda _: H.tool(read_only=True),
        TypeError,
        "no argument 'read_only'; did you mean 'reads_only'",
    ),
    "a timeout of text": (
        lambda _: H.tool(timeout_s="5"),
        TypeError,
        "timeout_s must be float or None",
    ),
}

ORDER: dict[str, WrongUse] = {
    "a misspelt keyword of a runtime": (
        lambda _: H.AgentRuntime(mdoel=None),
        TypeError,
        "Runtime has no argument 'mdoel'; did you mean 'model'.*Valid arguments: model, models",
    ),
    "a misspelt keyword of load_session": (
        lambda s: H.load_session(s.folder / "x.jsonl", promt="You are Ann."),
        TypeError,
        "load_session has no argument 'promt'; did you mean 'system_prompt'",
    ),
    "a keyword that nothing is like": (
        lambda _: H.SessionOptions(zzz=1),
        TypeError,
        "SessionOptions has no argument 'zzz'; valid arguments: durability, clock",
    ),
    "no session file at all": (lambda _: H.load_session(), TypeError, "missing 1 required.*file"),
    "a runtime by position": (
        lambda s: H.load_session(s.folder / "x.jsonl", H.AgentRuntime()),
        TypeError,
        "takes 1 positional argument but 2 were given",
    ),
    "an agent that was not born hears": (
        lambda s: s.unregistered_agent().harken("Hi"),
        H.NameNotFound,
        "SmartAgent agent_002 is not in the log yet: call log_birth\\(agent, name=...\\) first",
    ),
    "an agent that was not born answers": (
        lambda s: ask(s.unregistered_agent(), "Hi"),
        H.NameNotFound,
        "call log_birth\\(agent, name=...\\) first",
    ),
    "an agent that was not born goes on": (
        lambda s: ask(s.unregistered_agent(), None),
        H.NameNotFound,
        "call log_birth\\(agent, name=...\\) first",
    ),
    "an agent that is born twice": (log_birth_twice, H.InvalidEvent, "agent_001 was born before"),
    "a hook that was not registered": (
        lambda s: s.install(type("Thrifty", (H.Hook,), {"judge": ok})),
        TypeError,
        'Thrifty is not registered.*put @register\\("..."\\) above the class',
    ),
    "a subclass of a registered hook": (
        lambda s: s.install(type("Thriftier", (hook_class("thrifty", judge=ok),), {})),
        TypeError,
        "Thriftier is not registered",
    ),
    "a dumb agent that was not registered": (
        lambda s: log_birth(s.unregistered_agent(type("Echo", (H.DumbAgent,), {})), s.folder.name),
        TypeError,
        "Echo is not registered",
    ),
    "a hook without judge": (
        lambda s: s.install(hook_class("blank")),
        TypeError,
        "Blank has no method judge\\(self, question\\)",
    ),
    "a hook with a misspelt judge": (
        lambda s: s.install(hook_class("misspelt", jugde=ok)),
        TypeError,
        "has no method judge.*did you mean 'jugde'",
    ),
    "a judge without a question": (
        lambda s: s.install(hook_class("short", judge=lambda self: H.Ok())),
        TypeError,
        "Short.judge must take \\(self, question\\)",
    ),
    "a hook installed above nothing": (
        lambda s: hook_class("lone", judge=ok)(s.load()[1]).install(None),
        TypeError,
        "agent must be an Agent, not None",
    ),
    "register without a name": (
        lambda _: H.register_agent_class(type("Nameless", (H.Hook,), {})),
        TypeError,
        "name must be str, not the class Nameless",
    ),
    "register above a function": (
        lambda _: H.register_agent_class("rain")(weather),
        TypeError,
        "for a class of agents",
    ),
    "a call after close": (
        lambda s: ask(s.closed_root(), "Hi"),
        H.LogError,
        "^(?!.*free disk space).*the session is closed.*load_session\\(\\)",
    ),
    "an input after close": (
        lambda s: s.closed_root().harken("Hi"),
        H.LogError,
        "^(?!.*free disk space).*the session is closed",
    ),
    "a birth after close": (
        lambda s: s.closed_root().session.log_agent_created("agent_009", "msg_001", "Ann"),
        H.LogError,
        "^(?!.*free disk space).*the session is closed",
    ),
    "an end after close": (
        lambda s: s.closed_root().session.end(),
        H.LogError,
        "the session is closed",
    ),
    "a second writer": (
        lambda s: (s.load(), s.load()),
        H.LogError,
        "locked by process",
    ),
    "a start from a commit too late": (start_late, ValueError, "main has already started"),
    "no model at all": (
        lambda s: ask(s.load(model=None)[0], "Hi"),
        H.ConfigError,
        "this agent has no model",
    ),
    "a result of a synchronous call run": (
        lambda s: asyncio.run(s.root.harken("Hi")),
        ValueError,
        "a coroutine was expected, got None",
    ),
}

WRONG_USES = {**TOOLS, **ORDER}


@pytest.mark.parametrize("mistake", WRONG_USES)
def test_a_wrong_use_is_an_error_where_it_is_made(tmp_path: Path, mistake: str) -> None:
    check_error(Stage(tmp_path), WRONG_USES[mistake])


def test_a_refused_hook_leaves_no_line_in_the_log(tmp_path: Path) -> None:
    root, session = Stage(tmp_path).load()
    before = session.path.read_bytes()
    with pytest.raises(TypeError, match="is not registered"):
        type("Thrifty", (H.Hook,), {"judge": ok})(session, runtime=root.runtime).install(root)
    assert session.path.read_bytes() == before
    assert ask(root, "Hi") == "Hi"


def fail(self: Any, question: Any) -> Any:
    del self
    raise LookupError(f"no price in {question.text}")


@pytest.mark.parametrize(
    ("judge", "error"),
    [
        (fail, "LookupError: no price in Hi"),
        (
            lambda self, question: None,
            "None is not a verdict on response: return an instance of Ok",
        ),
        (lambda self, question: "OK", "'OK' is not a verdict on response"),
        (lambda self, question: H.Comment(question), "text must be str"),
    ],
    ids=["raises", "returns None", "returns a str", "makes a wrong verdict"],
)
def test_the_failure_of_a_hook_reaches_the_logging_of_the_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, judge: Any, error: str
) -> None:
    """Before, it was only a line of the session log, which `harken view SESSION hooks` shows."""
    root, session = Stage(tmp_path).load()
    kind = hook_class("failing", judge=judge, points=frozenset({"response"}))
    kind(session, runtime=root.runtime).install(root)
    with (
        caplog.at_level(logging.WARNING, logger="harken.agents.hooks.error_log"),
        contextlib.suppress(Exception),
    ):
        ask(root, "Hello")
    [record, *_] = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "harken.agents.hooks.error_log")
    assert record.getMessage() == "hook failing (Failing) failed at response of main"
    assert "Traceback" in caplog.text
    assert error in caplog.text


def test_a_hook_that_fails_at_what_concerns_it_is_reported_and_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, session = Stage(tmp_path).load()
    kind = hook_class("unsure", judge=ok, should_ask=fail, points=frozenset({"response"}))
    kind(session, runtime=root.runtime).install(root)
    assert ask(root, "Hello") == "Hi"
    assert "hook unsure (Unsure) failed in should_ask" in caplog.text
    assert "LookupError: no price in Hi" in caplog.text


def test_a_plain_function_is_a_tool(tmp_path: Path) -> None:
    calls = {"pattern": "weather", "calls": [{"weather": {"city": "Rome"}}]}
    model = H.ScriptedModel([{"pattern": "It rains", "answer": "Rain."}, calls])
    runtime = H.AgentRuntime(model=model, world=H.LocalWorld([weather]))
    root, _ = Stage(tmp_path).load(model=None, runtime=runtime)
    assert ask(root, "What weather?") == "Rain."
    assert "weather" in H.local_world(str(tmp_path), tools=[weather]).tools


NAMED = """
import sys
from pathlib import Path
from harken import AgentRuntime as Runtime, SmartAgent, load_session
assert Runtime(model="anthropic/claude-opus-5-5").model.name == "anthropic/claude-opus-5-5"
root, session = load_session("tea.jsonl", model="openai/gpt-5", name="main")
with session:
    assert root.model.name == root.state.language_model == "openai/gpt-5"
    assert SmartAgent(session, model="ollama/llama3").model.name == "ollama/llama3"
    assert "sk-" not in repr(root.runtime) + Path("tea.jsonl").read_text()
sys.exit(bool({"openai", "anthropic"} & sys.modules.keys()))
"""


def named(folder: Path, **keys: str) -> subprocess.CompletedProcess[str]:
    environment = {n: v for n, v in os.environ.items() if not n.endswith("_API_KEY")} | keys
    command = [sys.executable, "-c", NAMED]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_model_is_given_by_its_name_with_the_key_of_the_environment(tmp_path: Path) -> None:
    ran = named(tmp_path, ANTHROPIC_API_KEY="sk-one", OPENAI_API_KEY="sk-two")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_model_by_its_name_without_a_key_says_where_to_put_one(tmp_path: Path) -> None:
    ran = named(tmp_path)
    last = ran.stderr.splitlines()[-1]
    assert last == "harken.errors.ConfigError: no key for anthropic: set ANTHROPIC_API_KEY"


def test_the_constructors_keep_their_signatures() -> None:
    """The checks must not hide from `help()` and editors what a class takes."""
    assert [*inspect.signature(harken.AgentRuntime).parameters][:2] == ["model", "models"]
    assert next(iter(inspect.signature(harken.load_session).parameters)) == "session_file"
