"""The supported clients as data: how each resumes a session, and how it is run without a user.

This module has the commands, and the configuration for the mock provider. Session locations are in
`harken.capture.resume.placement`. The configuration also disables automatic compaction.

Source: docs/how-to/resume-in-another-client.md. *Last verified:* 2026-11, with
the versions named there.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import msgspec

from harken.errors import ConfigError, NameNotFound


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A command-line coding agent.

    The placeholders `{session}`, `{model}`, `{prompt}`, `{url}` (of the mock provider) and `{home}`
    are replaced.
    """

    runtime: str
    name: str
    """The display name."""
    program: str
    install: str
    """The command that installs it."""
    resume: tuple[str, ...]
    """The arguments that resume a session."""
    model: tuple[str, ...] = ("--model", "{model}")
    resume_arguments: tuple[str, ...]
    """The arguments that resume a session, send one prompt, and exit."""
    variables: Mapping[str, str]
    """The environment variables for the mock provider."""
    files: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The configuration files for the mock provider: paths below its home, and their contents."""

    @property
    def missing_text(self) -> str:
        """The error text if the program is not installed."""
        return (
            f"{self.name} is not installed: `{self.program}` not found in PATH; "
            f"install it with `{self.install}`"
        )

    def check_installed(self, path: str | None) -> None:
        """Raise ConfigError, with the install command, if the program is not in a `PATH`."""
        if shutil.which(self.program, path=path) is None:
            raise ConfigError(self.missing_text)

    def command(self, session: str, model: str = "") -> list[str]:
        """Return the command line that resumes a session."""
        return [
            self.program,
            *_fill_placeholders((*self.resume, *(self.model if model else ())), session, model),
        ]

    def one_turn(self, session: str, prompt: str) -> list[str]:
        """Return the command line that sends one prompt in a session."""
        return [self.program, *_fill_placeholders(self.resume_arguments, session, prompt=prompt)]

    def environment(self, url: str, home: str) -> dict[str, str]:
        """Return the environment variables for the mock provider."""
        return {
            name: value.replace("{url}", url).replace("{home}", home)
            for name, value in self.variables.items()
        }


def _fill_placeholders(
    words: tuple[str, ...], session: str, model: str = "", prompt: str = ""
) -> list[str]:
    arguments = []
    for word in words:
        argument = word.replace("{session}", session).replace("{model}", model)
        arguments.append(argument.replace("{prompt}", prompt))
    return arguments


_CODEX = """\
model = "recorder"
model_provider = "recorder"
model_context_window = 100000000
approval_policy = "never"
sandbox_mode = "read-only"
project_doc_max_bytes = 0
check_for_update_on_startup = false
analytics = { enabled = false }
[model_providers.recorder]
name = "recorder"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "RECORDER_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
_GEMINI: dict[str, Any] = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"disableAutoUpdate": True},
    "context": {"fileName": "no-such-file.md"},
    "model": {"compressionThreshold": 10**6},
}
_OPENCODE_MODEL = {
    "name": "Recorder",
    "limit": {"context": 100_000_000, "output": 8000},
    "attachment": True,  # Without images in its input, OpenCode sends a text in place of each.
    "modalities": {"input": ["text", "image"], "output": ["text"]},
}
_OPENCODE: dict[str, Any] = {
    "model": "recorder/recorder",
    "small_model": "recorder/recorder",
    "provider": {
        "recorder": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": "none"},
            "models": {"recorder": _OPENCODE_MODEL},
        }
    },
}
_OPENCODE_QUIET = ("AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "MODELS_FETCH", "CLAUDE_CODE")
_PI_MODEL = {"id": "recorder", "contextWindow": 100_000_000, "input": ["text", "image"]}
_PI_PROVIDER = {"api": "openai-completions", "baseUrl": "{url}/v1", "apiKey": "none"}
_PI: dict[str, Any] = {"providers": {"recorder": {**_PI_PROVIDER, "models": [_PI_MODEL]}}}

CLIENTS = (
    Client(
        runtime="claude",
        name="Claude Code",
        program="claude",
        install="npm install -g @anthropic-ai/claude-code",
        resume=("--resume", "{session}"),
        resume_arguments=("-p", "--output-format", "json", "--resume", "{session}", "{prompt}"),
        variables={
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
            "DISABLE_AUTO_COMPACT": "1",  # a long conversation is sent as it is
        },
    ),
    Client(
        runtime="codex",
        name="Codex",
        program="codex",
        install="npm install -g @openai/codex",
        resume=("resume", "{session}"),
        resume_arguments=(
            "exec",
            "--json",
            "--skip-git-repo-check",
            "resume",
            "{session}",
            "{prompt}",
        ),
        variables={"CODEX_HOME": "{home}/.codex", "RECORDER_KEY": "none"},
        files={".codex/config.toml": _CODEX},
    ),
    Client(
        runtime="gemini",
        name="Gemini CLI",
        program="gemini",
        install="npm install -g @google/gemini-cli",
        resume=("--resume", "{session}"),
        resume_arguments=(
            *("-m", "gemini-2.5-pro", "--output-format", "stream-json"),
            *("--resume", "{session}", "--prompt={prompt}"),
        ),
        variables={
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        files={".gemini/settings.json": json.dumps(_GEMINI)},
    ),
    Client(
        runtime="opencode",
        name="OpenCode",
        program="opencode",
        install="npm install -g opencode-ai",
        resume=("--session", "{session}"),
        resume_arguments=(
            *("run", "--format", "json", "--model", "recorder/recorder"),
            *("--session", "{session}", "{prompt}"),
        ),
        variables={f"OPENCODE_DISABLE_{name}": "1" for name in _OPENCODE_QUIET},
        files={".config/opencode/opencode.json": json.dumps(_OPENCODE)},
    ),
    Client(
        runtime="pi",
        name="Pi",
        program="pi",
        install="npm install -g @earendil-works/pi-coding-agent",
        resume=("--session", "{session}"),
        resume_arguments=(
            *("-p", "--mode", "json", "--provider", "recorder", "--model", "recorder"),
            *("--no-context-files", "--session", "{session}", "{prompt}"),
        ),
        variables={"PI_OFFLINE": "1"},
        files={".pi/agent/models.json": json.dumps(_PI)},
    ),
)
"""All clients that Harken can write sessions for."""
_TIME_ORDERED_RUNTIMES = frozenset({"codex", "pi"})
"""Runtimes whose session ids are ordered by time."""
RUNTIMES = tuple(client.runtime for client in CLIENTS)


def get_client(runtime: str) -> Client:
    """Return the client of a runtime. Raises NameNotFound."""
    match = next((client for client in CLIENTS if client.runtime == runtime), None)
    if match is None:
        raise NameNotFound("client", runtime, RUNTIMES)
    return match


def create_session_id(runtime: str, now_ms: int) -> str:
    """Return a new session id: a UUID of the version that the runtime uses."""
    if runtime not in _TIME_ORDERED_RUNTIMES:
        return str(uuid4())
    # Version 7, RFC 9562: the time, then chance.
    number = now_ms << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    return str(UUID(int=number))
