"""The recorder process of `harken proxy`, which creates sessions from the recorded calls."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from harken.capture.proxy.recorder_process import iter_notifications
from harken.capture.proxy.spool_recorder import SpoolRecorder
from harken.config.home import Home
from harken.config.identity import read_identity
from harken.config.settings import load_settings
from harken.config.store import open_or_create_store
from harken.core.ids import AgentId
from harken.core.messages import ChatMessage, text_of
from harken.recording.client_hints import parse_hints
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.session.session import Session

_NICENESS = 10
"""Its niceness: forwarding bytes has priority."""
_MAX_CHARS = 200


def record(home: Home, run: str) -> int:
    """Record the calls of a run of the proxy until it ends, after those that earlier runs left."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(
            number, signal.SIG_IGN
        )  # The recorder ends after the proxy, when all is recorded.
    os.nice(_NICENESS)
    with (
        open_or_create_store(home) as store,
        Recorder(
            home.sessions_folder,
            store,
            tell=lambda text: _report({"told": text}),
            options=RecorderOptions(redact=load_settings(home).credentials()),
        ) as recorder,
    ):
        recorder.on_response = _report_answer
        counts = _Counts()
        recording = SpoolRecorder(recorder, parse_hints, lambda text: _report({"told": text}))
        recording.on_run = lambda folder: recorder.set_identity(read_identity(folder))
        recording.progress = lambda: counts.report(recording)
        recording.catch_up(home.proxy_folder, own=run)
        recording.follow(home.proxy_folder / run, iter_notifications())
    return 0


class _Counts:
    """The counts that were reported so far."""

    def __init__(self) -> None:
        self._recorded = 0
        self._unrecorded: Counter[str] = Counter()

    def report(self, recording: SpoolRecorder) -> None:
        """Report the calls since the last report."""
        recorded = recording.recorded - self._recorded
        unrecorded = recording.unrecorded - self._unrecorded
        if recorded or unrecorded:
            _report({"recorded": recorded, "unrecorded": dict(unrecorded)})
        self._recorded += recorded
        self._unrecorded += unrecorded


def _report_answer(session: Session, agent: AgentId) -> None:
    """Report the answer of an agent, and its session."""
    name = session.agents[agent].name or agent
    _report(
        {
            "session": session.path.stem,
            "agent": name,
            "said": format_last_answer(session.context(agent)),
        }
    )


def format_last_answer(context: Sequence[ChatMessage]) -> str:
    """Return the beginning of an agent's last answer on one line, else its calls."""
    answer = list(takewhile(lambda message: message.role == "assistant", reversed(context)))
    words = next((text for message in answer if (text := text_of(message.content).strip())), "")
    calls = [
        call.function.name for message in reversed(answer) for call in message.tool_calls or ()
    ]
    summary = words or ", ".join(calls) or ("(nothing)" if answer else "(no answer)")
    return " ".join(summary[:_MAX_CHARS].split())


def _report(value: dict[str, Any]) -> None:
    """Write a line for the proxy. A closed pipe is ignored."""
    with suppress(OSError, ValueError):
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()
