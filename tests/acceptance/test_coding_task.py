"""A coding task from end to end: agents read, run tests, edit, ask for a review, and finish.

With a model in the process, and with both SDKs over HTTP against a provider that refuses what
the real ones refuse; killed in the middle, and resumed.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harken.core.messages import ChatMessage, text_of
from harken.formats.providers import anthropic, openai_chat
from harken.llm.base import ModelRequest
from harken.session.log.reader import iter_events
from harken.views.viewer import SessionViewer
from tests.acceptance.coding import ANSWER, MENDED, PROMPT, make_project, plan
from tests.agent_kit import check_log
from tests.forks import processes
from tests.provider.checks import check_anthropic, check_openai, shared
from tests.provider.server import Answer, Provider, ReceivedRequest
from tests.provider.wire import WIRES, Wire
from tests.session_kit import read_lines

ROOT = Path(__file__).parents[2]
READ = {"anthropic": anthropic.parse_request_messages, "openai": openai_chat.parse_request_messages}


def strict(protocol: str) -> list[Callable[[dict[str, Any]], None]]:
    """Return what refuses a body of this protocol: the own checks, and the shared ones."""
    check_protocol = {"anthropic": check_anthropic, "openai": check_openai}[protocol]
    strict_module = shared("strict")
    if strict_module is None:
        return [check_protocol]
    return [
        check_protocol,
        {"anthropic": strict_module.check_anthropic, "openai": strict_module.check_chat}[protocol],
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_project(tmp_path / "project")
    return tmp_path


def code(folder: Path, dies_after: int = 0, *provider: str) -> str:
    """Run the coder; return what it answered, nothing where it was killed."""
    worker = [sys.executable, "-m", "tests.acceptance.coding_worker"]
    process = processes.run(
        [*worker, folder, str(dies_after), *provider],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert process.returncode == (-signal.SIGKILL if dies_after else 0), process.stderr
    return str(process.stdout).strip()


def check_end(folder: Path) -> None:
    """Check that the work is done, once, and that the log tells of it."""
    log = folder / "s.jsonl"
    assert (folder / "project" / "bill.py").read_text() == MENDED
    check_log(log)
    messages = [
        line for line in read_lines(log) if line.get("role") == "user" and "cause" not in line
    ]
    assert [line["content"] for line in messages].count(PROMPT) == 1
    assert "reviewer" in SessionViewer(log).list_agents().values()


def moments(folder: Path, *provider: str) -> Iterator[int]:
    """Yield after how many events to kill: all of a whole run, in a few steps."""
    code(folder, 0, *provider)
    count = sum(1 for _ in iter_events(folder / "s.jsonl"))
    check_end(folder)
    assert count > 30
    yield from range(1, count - 1, max(count // 8, 1))


@pytest.mark.req("S4-02", "S4-40", "S0-32")
def test_a_coder_killed_anywhere_finishes_its_task(folder: Path, tmp_path: Path) -> None:
    for dies_after in moments(folder):
        run_folder = tmp_path / f"{dies_after}"
        make_project(run_folder / "project")
        assert code(run_folder, dies_after) == ""
        assert code(run_folder) == ANSWER
        check_end(run_folder)


def check_wire(folder: Path, protocol: str, received: list[ReceivedRequest]) -> None:
    """Check that what was sent is what the log says that the models saw."""
    viewer = SessionViewer(folder / "s.jsonl")
    parse = READ[protocol]
    requests = [line["message_id"] for line in read_lines(viewer.path) if "context_hash" in line]
    contexts = [comparable_messages(parse(request.body)) for request in received]
    for request in requests:
        context = viewer.context(request)
        assert context.verified
        assert comparable_messages([row.message for row in context.messages]) in contexts


def comparable_messages(messages: Sequence[ChatMessage]) -> list[tuple[str, ...]]:
    """Return what messages say and call, without ids: neighbours of one role are joined."""
    rows: list[tuple[str, ...]] = []
    for message in messages:
        text = text_of(message.content).strip()
        if text:
            rows.append((message.role, text))
        functions = [call.function for call in message.tool_calls or ()]
        rows += [("call", call.name, "".join(call.arguments.split())) for call in functions]
    return rows


@pytest.mark.req("S4-02", "S4-40", "S0-22", "S0-32")
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_coder_killed_anywhere_finishes_over_http(
    folder: Path, tmp_path: Path, wire: Wire
) -> None:
    protocol = wire.name
    parse, checks = READ[protocol], strict(protocol)

    def answer(request: ReceivedRequest) -> Answer:
        try:
            for check in checks:
                check(request.body)
        except Exception as problem:  # noqa: BLE001 - whatever is wrong is refused
            return wire.error(400, f"refused: {problem}")
        messages = parse(request.body)
        agent = "reviewer" if messages[0].role == "system" else "main"
        return wire.answer(plan(ModelRequest(agent=agent, messages=messages)))

    with Provider(answer) as provider:
        base = provider.url + ("/v1" if protocol == "openai" else "")
        for dies_after in [*moments(folder, protocol, base)][2::3]:
            run_folder = tmp_path / f"{dies_after}"
            make_project(run_folder / "project")
            before = len(provider.asked)
            assert code(run_folder, dies_after, protocol, base) == ""
            assert code(run_folder, 0, protocol, base) == ANSWER
            check_end(run_folder)
            check_wire(run_folder, protocol, provider.asked[before:])
