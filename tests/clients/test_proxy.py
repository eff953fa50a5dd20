"""The real clients, before the recording proxy: what is recorded is what they sent.

Source: the clients and the fake provider of the lab; see `tests.clients.kit`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harken.cli.commands.run import QUIET
from harken.core import events as ev
from harken.recording.rebuild import RequestRebuilder
from harken.session.log.reader import iter_events as events
from tests.cli.kit import start
from tests.clients.kit import LAB_PY, TIMEOUT_S, needs, programs

ARGUMENTS = {
    "claude": ["-p", "--dangerously-skip-permissions"],
    "codex": ["exec", "--skip-git-repo-check"],
    "gemini": ["-m", "gemini-2.5-pro", "--approval-mode", "yolo"],
    "opencode": ["run"],
    "pi": ["-p", "--provider", "fake", "--model", "fake-model", "--no-context-files"],
}
Bodies = list[dict[str, Any]]


class Lab:
    """A client, the proxy before the fake provider, and their folder."""

    def __init__(self, client: str, home: Path, environ: dict[str, str]) -> None:
        self.client, self.home, self.environ = client, home, environ

    def ask(self, prompt: str, *options: str) -> None:
        """Let the client run one turn."""
        binary = programs(self.client) / self.client
        prompts = [f"--prompt={prompt}"] if self.client == "gemini" else [prompt]
        result = subprocess.run(
            [str(binary), *ARGUMENTS[self.client], *options, *prompts],
            cwd=self.home / "work",
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert result.returncode == 0, result

    def run_by_proxy(
        self, name: str, prompt: str, path: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Let `harken proxy` run a turn of the client."""
        binary = programs(self.client) / self.client
        home = str(self.home / "harken")
        result = subprocess.run(
            [sys.executable, "-m", "harken", "proxy", "--home", home, "--upstream",
             f"{name}={self.environ['HTTPS_PROXY']}{path}", "--", str(binary),
             *ARGUMENTS[self.client], prompt],
            cwd=self.home / "work",
            env={**os.environ, **self.environ, "OPENAI_API_KEY": "none", "CODEX_API_KEY": "none"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )  # fmt: skip
        assert result.returncode == 0, result
        return result

    def go_on(self, prompt: str, *options: str) -> None:
        """Let the client continue its conversation."""
        if self.client == "claude":
            self.ask(prompt, "-c", *options)
            return
        # Not one of a subagent.
        first = min(self.home.glob(".codex/sessions/*/*/*/rollout-*.jsonl"))
        self.ask(prompt, "resume", first.stem[-36:], *options)

    def sent_bodies(self) -> Bodies:
        """Return the request bodies at the provider that led to an answer of the model."""
        lines = (self.home / "requests.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        return [log_entry["body"] for log_entry in entries if log_entry["protocol"]]

    def logs(self) -> list[Path]:
        return sorted((self.home / "harken" / "sessions").glob("*.jsonl"))

    def rebuilt(self) -> Bodies:
        """Return the bodies of all recorded requests."""
        rebuilders = [RequestRebuilder(events(log)) for log in self.logs()]
        return [
            rebuilder.body(request) for rebuilder in rebuilders for request in rebuilder.requests
        ]

    def events(self) -> list[ev.Event]:
        (log,) = self.logs()
        return list(events(log))


@contextmanager
def lab(client: str, home: Path) -> Iterator[Lab]:
    """Run the fake provider and the proxy."""
    sys.path.insert(0, str(LAB_PY.parent))
    try:
        clients, fake_api = map(importlib.import_module, ("clients", "fake_api"))
    finally:
        sys.path.remove(str(LAB_PY.parent))
    for folder in ("work", "tmp"):
        (home / folder).mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", home / "work"], check=True)
    with (
        fake_api.FakeAPI(home / "requests.jsonl", home / "work") as api,
        proxy(home / "harken", api.url) as address,
    ):
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HTTPS_PROXY": api.url,
            "NO_PROXY": "127.0.0.1",
            **dict.fromkeys(QUIET, "1"),
            **clients.CLIENTS[client].configure(home, address),
        }
        yield Lab(client, home, environ)


@pytest.mark.full
@needs("claude")
def test_claude_code_runs_under_the_proxy(tmp_path: Path) -> None:
    with lab("claude", tmp_path) as place:
        result = place.run_by_proxy("anthropic", "RUNTOOL please")
        assert "Done, the tool has answered." in result.stdout
        assert result.stderr.endswith("rec-claude-code-" + place.logs()[0].stem[-8:] + "\n")
    assert as_json(place.rebuilt()) == as_json(place.sent_bodies())


@pytest.mark.full
@needs("codex")
def test_codex_runs_under_the_proxy_and_uses_http(
    tmp_path: Path,
) -> None:
    with lab("codex", tmp_path) as place:
        (tmp_path / ".codex" / "config.toml").write_text(
            'model = "gpt-5.1-codex"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
            "analytics = { enabled = false }\n"
        )
        result = place.run_by_proxy("openai", "RUNTOOL please", "/v1")
        assert "Done, the tool has answered." in result.stdout
    assert as_json(place.rebuilt()) == as_json(place.sent_bodies())


@contextmanager
def proxy(home: Path, url: str) -> Iterator[str]:
    """Run the proxy. Yield the address for clients."""
    command = [sys.executable, "-m", "harken", "proxy", "--home", str(home), "--json",
               "--port", "0", "--upstream", f"lab={url}"]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["addresses"]["lab"]
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (0, "")
            last = json.loads(out.splitlines()[-1])
            assert last["unrecorded"] == {}
            assert last["calls"] == last["recorded"]
        finally:
            if process.poll() is None:
                process.kill()


def as_json(bodies: Bodies) -> list[str]:
    return sorted(json.dumps(body, sort_keys=True) for body in bodies)


def names(events: list[ev.Event]) -> list[str]:
    """Return the names of the agents in order of creation."""
    return [event.name or "" for event in events if isinstance(event, ev.AgentCreated)]


def reasons(events: list[ev.Event]) -> set[str]:
    """Return the reasons of context edits."""
    return {event.reason or "" for event in events if isinstance(event, ev.TranscriptEdited)}


@needs("claude")
def test_claude_code_requests_are_recorded_exactly(tmp_path: Path) -> None:
    with lab("claude", tmp_path) as place:
        place.ask("RUNTOOL please")
        place.go_on("SUBAGENT please")
        place.go_on("/compact")
        place.go_on("And now?")
    assert as_json(place.rebuilt()) == as_json(place.sent_bodies())
    assert len(place.sent_bodies()) >= 7
    events = place.events()
    assert len(names(events)) >= 2
    assert "compaction" in reasons(events)
    for command in (["sessions"], ["search", "tool-output-42"], ["ctx", "log"]):
        process = start(place.home / "harken", *command)
        assert (process.returncode, bool(process.stdout)) == (0, True), process


@needs("codex")
def test_codex_requests_are_recorded_exactly(tmp_path: Path) -> None:
    with lab("codex", tmp_path) as place:
        place.ask("RUNTOOL please")
        place.go_on("SUBAGENT please")
        place.go_on("And now?", "-c", "model_auto_compact_token_limit=1000")
        place.go_on("And then?")
    assert as_json(place.rebuilt()) == as_json(place.sent_bodies())
    events = place.events()
    assert len(names(events)) >= 2
    assert "compaction" in reasons(events)


@pytest.mark.full
@needs("gemini")
def test_gemini_cli_requests_are_recorded_exactly(tmp_path: Path) -> None:
    with lab("gemini", tmp_path) as place:
        place.ask("RUNTOOL please")
    assert as_json(place.rebuilt()) == as_json(place.sent_bodies())


@pytest.mark.full
@needs("pi")
def test_pi_requests_are_recorded_exactly(tmp_path: Path) -> None:
    with lab("pi", tmp_path) as place:
        place.ask("RUNTOOL please")
    assert as_json(place.rebuilt()) == as_json(place.sent_bodies())


@pytest.mark.full
@needs("opencode")
def test_opencode_requests_are_recorded_exactly(tmp_path: Path) -> None:
    with lab("opencode", tmp_path) as place:
        place.ask("RUNTOOL please")
    assert as_json(place.rebuilt()) == as_json(place.sent_bodies())
