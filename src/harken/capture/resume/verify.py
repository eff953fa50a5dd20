"""Verifying: the installed client resumes a session, and what it sends is what was materialized.

One idea: nothing is believed. The session is written into a home that was made for that, with an
environment that holds nothing of the user's, and the client is run on it with one more prompt; a
recorder stands for its provider. Then two things are compared: what was written against what was
materialized, and what the client sent against what was written.

Source: docs/how-to/continue-anywhere.md, "Verify".

When what a client sends, and what it should send, are the same.

One idea: what may differ stands in `harken.capture.resume.allowed_differences`. It is taken out of
both, and what is left is compared message by message.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harken.capture.resume.allowed_differences import RULES, DifferenceRule
from harken.capture.resume.clients import Client
from harken.capture.resume.completeness import Completeness, wholeness
from harken.capture.resume.mock_provider import MockProvider, MockRequest, recorder
from harken.capture.resume.normalize import text_of_block
from harken.capture.resume.placement import ClientHome, place
from harken.capture.resume.request_diff import Message, MessageComparison, Request, rows
from harken.errors import ConfigError, FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, RuntimeFormat, conversation
from harken.world.shell.process_group import ProcessGroup


@dataclass(frozen=True, slots=True)
class RequestComparison:
    """How two requests compare."""

    rows: tuple[MessageComparison, ...]
    ignored: tuple[DifferenceRule, ...]
    """What was found that may differ."""

    @property
    def differences(self) -> list[MessageComparison]:
        """The messages that are not the same."""
        return [row for row in self.rows if row.state != "same"]


def compare(
    runtime: str, expected: Request, sent: Request, *, prompt: str = ""
) -> RequestComparison:
    """Compare a request with what it should be.

    prompt: what the client was asked beside the conversation: it ends where that begins.
    """
    theirs = list(_before(sent, prompt)) if prompt else sent
    ours, ignored = expected, []
    for rule in RULES:
        if runtime not in rule.clients:
            continue
        before = (theirs, ours)
        theirs = rule.sent(theirs, ours) if rule.sent else theirs
        ours = rule.expected(ours, before[0]) if rule.expected else ours
        if (theirs, ours) != before:
            ignored.append(rule)
    return RequestComparison(tuple(rows(ours, theirs)), tuple(ignored))


def _before(request: Request, prompt: str) -> Iterator[Message]:
    """Yield what stands before a prompt."""
    for message in request:
        whole = "content" if "content" in message else "parts"
        blocks = message.get(whole)
        listed = blocks if isinstance(blocks, list) else [blocks]
        at = next((at for at, block in enumerate(listed) if prompt in text_of_block(block)), None)
        if at is None:
            yield message
            continue
        if at:
            yield {**message, whole: listed[:at]}
        return


TIMEOUT_S = 120.0
_POLL_S = 0.1
_SAID_CHARACTERS, _READ_BYTES = 300, 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRun:
    """How a client is tried."""

    folder: Path
    """Empty: home, files and output of the client go here."""
    path: str
    """`PATH`: where the client, and what it needs, are found."""
    timeout_s: float = TIMEOUT_S

    @property
    def home(self) -> Path:
        """The home of the client."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """Where it works."""
        return self.folder / "work"

    @property
    def output(self) -> Path:
        """What it printed."""
        return self.folder / "output.txt"

    @contextmanager
    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> Iterator[ProcessGroup]:
        """Run a client until the end of the block; then it ends, with all that it began."""
        with self.output.open("wb") as output:
            running = ProcessGroup.start(
                command, folder=self.work, environment=environ, output=output.fileno()
            )
            try:
                yield running
            finally:
                running.kill()

    def said(self) -> str:
        """Return the end of what the client printed, on one line."""
        text = " ".join(self.output.read_bytes()[-_READ_BYTES:].decode("utf-8", "replace").split())
        return text[-_SAID_CHARACTERS:] or "it said nothing"


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What was found."""

    wholeness: Completeness
    """What was written against what was materialized."""
    comparison: RequestComparison
    """What was sent against what was written."""
    expected: Request
    """What it should send."""
    sent: Request
    """What it sent, the present and the prompt included."""
    others: tuple[str, ...]
    """What else the client wanted; nothing of that left this machine."""

    @property
    def is_same(self) -> bool:
        """Whether what was sent is what was materialized."""
        return not self.wholeness.lost and not self.comparison.differences


def verify(
    client: Client,
    native: RuntimeFormat,
    entries: Sequence[ConversationEntry],
    new: NewSessionInfo,
    trial: ClientRun,
) -> VerifyResult:
    """Run a client on a conversation, and compare what it sends.

    new: its folder is that of the trial, `work`. Raises ConfigError where the client cannot be run,
    sends nothing, or takes too long.
    """
    if native.writes is None or native.sent is None:
        raise ConfigError(
            f"no session of {client.name} can be written, or it is not known what is sent"
        )
    data = native.writes(entries, new)
    written = read_written_conversation(client, native, data)
    prompt = f"Say ok. ({secrets.token_hex(8)})"
    with recorder() as server:
        environ = environment(client, trial, server.url)
        _prepare(client, trial, server.url)
        placed = place(client, native, data, new, ClientHome(home=trial.home, environ=environ))
        with trial.run(client.one_turn(placed.session, prompt), environ) as running:
            asked = _asked(running, server, prompt, trial.timeout_s)
            code = running.exit_code
        others = tuple(server.others)
    if asked is None:
        what = f"took more than {trial.timeout_s:g} s" if code is None else f"ended with {code}"
        raise ConfigError(f"{client.name} {what} and did not ask its model: {trial.said()}")
    expected: Request = native.sent(written)
    compared = compare(client.runtime, expected, asked.conversation, prompt=prompt)
    whole = wholeness(entries, written)
    return VerifyResult(whole, compared, expected, asked.conversation, others)


def read_written_conversation(
    client: Client, native: RuntimeFormat, data: bytes
) -> list[ConversationEntry]:
    """Return the conversation of a session just written. Raises ConfigError for an empty one."""
    with suppress(FormatError):
        if found := conversation(native.steps, data):
            return found
    raise ConfigError(f"nothing is said there that {client.name} could go on with")


_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy")


def environment(client: Client, trial: ClientRun, url: str) -> dict[str, str]:
    """Return all that a client sees of an environment: nothing of the user's but `PATH`."""
    own = {
        "PATH": trial.path,
        "HOME": str(trial.home),
        "TMPDIR": str(trial.folder / "tmp"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        # It connects nobody: whoever asks for a proxy finds no way off this machine.
        **dict.fromkeys(_PROXIES, url),
        "NO_PROXY": "127.0.0.1",
    }
    return own | client.environment(url, str(trial.home))


def _prepare(client: Client, trial: ClientRun, url: str) -> None:
    """Make the folders of a client, and configure it. Raises OSError."""
    for folder in (trial.home, trial.work, trial.folder / "tmp"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in client.files.items():
        file = trial.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{url}", url), encoding="utf-8")


def _asked(
    running: ProcessGroup, server: MockProvider, prompt: str, timeout_s: float
) -> MockRequest | None:
    """Return the request in which a client puts a prompt to the model; None: there was none."""

    def is_it(asked: MockRequest) -> bool:
        return any(prompt in _texts(message) for message in asked.conversation)

    until, found = time.monotonic() + timeout_s, None
    while found is None and running.exit_code is None and time.monotonic() < until:
        found = server.wait(lambda asked: asked.has_tools and is_it(asked), _POLL_S)
    return found or server.wait(is_it, 0)  # a client may have no tools, or ask and end at once


def _texts(message: dict[str, object]) -> str:
    """Return where a prompt would stand."""
    return str(message.get("content")) + str(message.get("parts"))
