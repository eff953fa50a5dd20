"""The recorder of `harken proxy`: a process of its own, which makes sessions of what passed."""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from harken.capture.proxy.recorder_process import pokes
from harken.capture.proxy.spool_recorder import SpoolRecorder
from harken.config.home import Home
from harken.config.store import made_store
from harken.core.ids import AgentId
from harken.core.messages import ChatMessage, text_of
from harken.recording.client_hints import hints_of
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.session.session import Session

_BESIDE = 10
"""How nice it is: whoever passes bytes on goes first."""
_MOST_CHARACTERS = 200


def record(home: Home, run: str) -> int:
    """Record what a run of the proxy writes, until it ends; before that, what others have left."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends when the proxy does, and all is recorded
    os.nice(_BESIDE)
    with (
        made_store(home) as store,
        Recorder(
            home.sessions_folder,
            store,
            options=RecorderOptions(machine=platform.node()),
            tell=lambda text: _say({"told": text}),
        ) as recorder,
    ):
        recorder.answered = _answered
        counts = _Counts()
        recording = SpoolRecorder(recorder, hints_of, lambda text: _say({"told": text}))
        recording.progress = lambda: counts.say(recording)
        recording.catch_up(home.proxy_folder, own=run)
        recording.follow(home.proxy_folder / run, pokes())
    return 0


class _Counts:
    """What was said of the counts so far."""

    def __init__(self) -> None:
        self._recorded = 0
        self._unrecorded: Counter[str] = Counter()

    def say(self, recording: SpoolRecorder) -> None:
        """Say what has come since the last time."""
        recorded = recording.recorded - self._recorded
        unrecorded = recording.unrecorded - self._unrecorded
        if recorded or unrecorded:
            _say({"recorded": recorded, "unrecorded": dict(unrecorded)})
        self._recorded += recorded
        self._unrecorded += unrecorded


def _answered(session: Session, agent: AgentId) -> None:
    """Say what an agent has said, and in which session."""
    name = session.agents[agent].name or agent
    _say({"session": session.path.stem, "agent": name, "said": said_last(session.context(agent))})


def said_last(context: Sequence[ChatMessage]) -> str:
    """Return the beginning of what an agent has just said, on one line, else what it calls."""
    answer = list(takewhile(lambda message: message.role == "assistant", reversed(context)))
    words = next((text for one in answer if (text := text_of(one.content).strip())), "")
    calls = [call.function.name for one in reversed(answer) for call in one.tool_calls or ()]
    said = words or ", ".join(calls) or ("(nothing)" if answer else "(no answer)")
    return " ".join(said[:_MOST_CHARACTERS].split())


def _say(value: dict[str, Any]) -> None:
    """Write a line for the proxy; where it is gone, nobody reads."""
    with suppress(OSError, ValueError):
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()
