"""Verify that the installed client sends the materialized conversation when it resumes a session.

The session is written into a temporary home, with an environment without the user's data. The
client is run with one more prompt, against a mock provider. Then the request of the client is
compared with the materialized conversation itself, not with the written session: each text is
present, lost, reordered, or left out by the client, as it does in every session. In addition, the
request is compared with the one that the client should send for the written session, message by
message. `harken.capture.resume.allowed_differences` lists what may differ.

Source: docs/how-to/resume-in-another-client.md, "Verify".
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from harken.capture.resume.allowed_differences import DIFFERENCE_RULES, DifferenceRule
from harken.capture.resume.clients import Client
from harken.capture.resume.completeness import Completeness, MissingContent, check_completeness
from harken.capture.resume.mock_provider import MockProvider, MockRequest, run_mock_provider
from harken.capture.resume.normalize import text_of_block
from harken.capture.resume.placement import ClientHome, place_session
from harken.capture.resume.request_diff import Message, MessageComparison, Request, compare_messages
from harken.core import canonical
from harken.errors import ConfigError, FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import get_text
from harken.formats.runtimes.base import ModelUse, NewSessionInfo, RuntimeFormat, read_conversation
from harken.formats.wire.registry import find_protocol
from harken.world.shell.process_group import ProcessGroup


class RequestComparison(msgspec.Struct, frozen=True):
    """The comparison of two requests."""

    rows: tuple[MessageComparison, ...]
    ignored: tuple[DifferenceRule, ...]
    """The rules for allowed differences that applied."""
    expected: Request = msgspec.field(default_factory=list)
    """The expected request without the allowed differences."""
    sent: Request = msgspec.field(default_factory=list)
    """The sent request without the allowed differences."""

    @property
    def differences(self) -> list[MessageComparison]:
        """The messages that differ."""
        return [row for row in self.rows if row.state != "same"]


def compare_requests(
    runtime: str, expected: Request, sent: Request, *, prompt: str = ""
) -> RequestComparison:
    """Compare a sent request with the expected one.

    prompt: the additional prompt. The conversation ends before it.
    """
    sent_messages = list(_iter_before_prompt(sent, prompt)) if prompt else sent
    expected_messages, ignored = expected, []
    for rule in DIFFERENCE_RULES:
        if runtime not in rule.clients:
            continue
        unchanged = (sent_messages, expected_messages)
        sent_messages = (
            rule.from_sent(sent_messages, expected_messages) if rule.from_sent else sent_messages
        )
        expected_messages = (
            rule.expected(expected_messages, unchanged[0]) if rule.expected else expected_messages
        )
        if (sent_messages, expected_messages) != unchanged:
            ignored.append(rule)
    rows = tuple(compare_messages(expected_messages, sent_messages))
    return RequestComparison(rows, tuple(ignored), expected_messages, sent_messages)


def _iter_before_prompt(request: Request, prompt: str) -> Iterator[Message]:
    """Yield the messages and blocks before a prompt."""
    for message in request:
        member = "content" if "content" in message else "parts"
        blocks = message.get(member)
        block_list = blocks if isinstance(blocks, list) else [blocks]
        index = next(
            (index for index, block in enumerate(block_list) if prompt in text_of_block(block)),
            None,
        )
        if index is None:
            yield message
            continue
        if index:
            yield {**message, member: block_list[:index]}
        return


TIMEOUT_S = 120.0
_POLL_S = 0.1
_MAX_OUTPUT_CHARS, _READ_BYTES = 300, 20_000


class ClientRun(msgspec.Struct, frozen=True, kw_only=True):
    """A trial run of a client."""

    folder: Path
    """An empty folder for the home, files and output of the client."""
    path: str
    """The `PATH` of the client."""
    timeout_s: float = TIMEOUT_S

    @property
    def home(self) -> Path:
        """The home of the client."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The working folder of the client."""
        return self.folder / "work"

    @property
    def output(self) -> Path:
        """The file with the output of the client."""
        return self.folder / "output.txt"

    @contextmanager
    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> Iterator[ProcessGroup]:
        """Run a client until the end of the block. Then kill its process group."""
        with self.output.open("wb") as output:
            running = ProcessGroup.start(
                command, folder=self.work, environment=environ, output=output.fileno()
            )
            try:
                yield running
            finally:
                running.kill()

    def output_tail(self) -> str:
        """Return the end of the client's output, on one line."""
        text = " ".join(self.output.read_bytes()[-_READ_BYTES:].decode("utf-8", "replace").split())
        return text[-_MAX_OUTPUT_CHARS:] or "it said nothing"


class VerifyResult(msgspec.Struct, frozen=True):
    """The result of a verification."""

    written: Completeness
    """The written session compared with the materialized conversation."""
    completeness: Completeness
    """The sent request compared with the materialized conversation."""
    omitted: tuple[MissingContent, ...]
    """Texts that were written and that the client leaves out of every resumed session."""
    comparison: RequestComparison
    """The sent request compared with the expected one."""
    expected: Request
    """The request that the client should send for the written session."""
    request: Request
    """The sent request, including the client's context messages and the prompt."""
    others: tuple[str, ...]
    """Other requests of the client. None of them left this machine."""

    @property
    def lost(self) -> list[MissingContent]:
        """The texts of the conversation that were not sent, without an allowed reason."""
        return [missing for missing in self.completeness.lost if missing not in self.omitted]

    @property
    def is_same(self) -> bool:
        """Whether the client sent the materialized conversation, in its order."""
        is_complete = not self.lost and not self.completeness.reordered
        return is_complete and not self.comparison.differences


def verify(
    client: Client,
    native: RuntimeFormat,
    entries: Sequence[ConversationEntry],
    new: NewSessionInfo,
    trial: ClientRun,
) -> VerifyResult:
    """Run a client on a conversation, and compare its request.

    new: its folder is `work` of the trial. Raises ConfigError if the client cannot be run, sends no
    request, or times out.
    """
    if native.writes is None or native.build_resume_request is None:
        raise ConfigError(
            f"sessions of {client.name} cannot be written, or its requests are not known"
        )
    data = native.writes(entries, new)
    conversation = read_written_conversation(client, native, data)
    prompt = f"Say ok. ({secrets.token_hex(8)})"
    with run_mock_provider() as server:
        environ = environment(client, trial, server.url)
        _prepare(client, trial, server.url)
        session = place_session(
            client, native, data, new, ClientHome(home=trial.home, environ=environ)
        )
        with trial.run(client.one_turn(session.session, prompt), environ) as running:
            request = _wait_for_request(running, server, prompt, trial.timeout_s)
            code = running.exit_code
        others = tuple(server.others)
    if request is None:
        problem = f"took more than {trial.timeout_s:g} s" if code is None else f"ended with {code}"
        raise ConfigError(
            f"{client.name} {problem} and did not ask its model: {trial.output_tail()}"
        )
    expected = _expected_request(native, conversation, request)
    comparison = compare_requests(client.runtime, expected, request.conversation, prompt=prompt)
    messages = [*_iter_before_prompt(request.conversation, prompt)]
    written = check_completeness(entries, conversation)
    completeness = check_completeness(entries, _read_request(request, messages))
    predicted = check_completeness(entries, _read_request(request, comparison.expected))
    explained = check_completeness(entries, _read_request(request, comparison.sent))
    omitted = tuple(
        missing
        for missing in completeness.lost
        if missing not in written.lost
        and (missing in predicted.lost or missing not in explained.lost)
    )
    return VerifyResult(
        written, completeness, omitted, comparison, expected, request.conversation, others
    )


def _expected_request(
    native: RuntimeFormat, conversation: Sequence[ConversationEntry], request: MockRequest
) -> Request:
    """Return the request that the client should send to the model of its request."""
    if native.build_request_for_model is not None:
        use = ModelUse(
            model=get_text(request.body, "model"),
            has_system_messages=any(m.get("role") == "system" for m in request.conversation),
        )
        return native.build_request_for_model(conversation, use)
    assert native.build_resume_request is not None
    return native.build_resume_request(conversation)


def _read_request(request: MockRequest, messages: Request) -> Iterator[ConversationEntry]:
    """Yield the entries of the messages of a request, as its protocol reads them."""
    protocol = find_protocol(request.path)
    if protocol is None:
        return
    names = [name for name in ("messages", "input", "contents") if name in request.body]
    body = request.body | dict.fromkeys(names[:1], messages)
    for piece in protocol.parse_request(request.path, canonical.to_json_line(body)).pieces:
        yield from map(ConversationEntry, protocol.read(piece)[0])


def read_written_conversation(
    client: Client, native: RuntimeFormat, data: bytes
) -> list[ConversationEntry]:
    """Parse the session that was just written. Raises ConfigError if it is empty."""
    with suppress(FormatError):
        if entries := read_conversation(native.steps, data):
            return entries
    raise ConfigError(f"the conversation has no message that {client.name} could resume")


_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy")


def environment(client: Client, trial: ClientRun, url: str) -> dict[str, str]:
    """Return the environment of a client, without variables of the user except `PATH`."""
    variables = {
        "PATH": trial.path,
        "HOME": str(trial.home),
        "TMPDIR": str(trial.folder / "tmp"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        # The mock provider rejects proxy requests, so the client cannot reach other machines.
        **dict.fromkeys(_PROXIES, url),
        "NO_PROXY": "127.0.0.1",
    }
    return variables | client.environment(url, str(trial.home))


def _prepare(client: Client, trial: ClientRun, url: str) -> None:
    """Create the folders and the configuration of a client. Raises OSError."""
    for folder in (trial.home, trial.work, trial.folder / "tmp"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in client.files.items():
        file = trial.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{url}", url), encoding="utf-8")


def _wait_for_request(
    running: ProcessGroup, server: MockProvider, prompt: str, timeout_s: float
) -> MockRequest | None:
    """Return the request that contains the prompt. Return None if there was none."""

    def is_it(request: MockRequest) -> bool:
        return any(prompt in _content_text(message) for message in request.conversation)

    deadline, match = time.monotonic() + timeout_s, None
    while match is None and running.exit_code is None and time.monotonic() < deadline:
        match = server.wait(lambda request: request.has_tools and is_it(request), _POLL_S)
    return match or server.wait(
        is_it, 0
    )  # A client may have no tools, or exit right after its request.


def _content_text(message: dict[str, object]) -> str:
    """Return the content of a message as text, to search it for the prompt."""
    return str(message.get("content")) + str(message.get("parts"))
