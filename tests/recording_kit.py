"""What tests of recordings share: a client of a provider, whose calls are recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.core import canonical
from harken.core import events as ev
from harken.core.clock import format_rfc3339
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints
from harken.recording.rebuild import RequestRebuilder
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.session.log.reader import iter_events
from harken.store.base import Store

Body = dict[str, Any]
START_US = 1_800_000_000_000_000


def open_recorder(
    folder: Path, told: list[str] | None = None, *, store: Store | None = None, **more: Any
) -> Recorder:
    """Return a recorder that tells a list what it has to tell; whatever it tells is an error."""
    options = RecorderOptions(durability="none", **more)
    tell = (told if told is not None else RejectedNotices()).append
    return Recorder(folder, store, tell=tell, options=options)


class RejectedNotices(list[str]):
    """Nothing should be told."""

    def append(self, line: str) -> None:
        raise AssertionError(line)


@dataclass
class RecordedClient:
    """Sends bodies, and remembers them."""

    recorder: Recorder
    hints: ClientHints = field(default_factory=ClientHints)
    sent_bodies: dict[str, Body] = field(default_factory=dict)
    """Call -> its body."""
    protocol: str = "anthropic-messages"
    path: str = "/v1/messages"
    at_us: int = START_US

    def begin(self, body: Body, **more: Any) -> str:
        """Send a request; return the id of its call."""
        id_ = f"call-{len(self.sent_bodies):05d}-{id(self)}"
        self.sent_bodies[id_] = json.loads(json.dumps(body))
        self.recorder.begin(self.captured_request(id_, **more))
        return id_

    def captured_request(self, id_: str, hints: ClientHints | None = None) -> CapturedRequest:
        self.at_us += 1_000_000
        return CapturedRequest(
            id=id_,
            protocol=self.protocol,
            path=self.path,
            body=json.dumps(self.sent_bodies[id_]).encode(),
            time=format_rfc3339(self.at_us),
            hints=hints or self.hints,
        )

    def end(self, id_: str, content: Any = None, *, whole: Body | None = None, **more: Any) -> None:
        """Answer a call: with blocks, or a text, or a whole body; nothing: it was cut at once."""
        self.at_us += 1_000_000
        if whole is None and content is not None:
            whole = response_body(content)
        body = b"" if whole is None else json.dumps(whole).encode()
        status = 0 if whole is None else 200
        how = {
            "id": id_,
            "status": status,
            "body": body,
            "time": format_rfc3339(self.at_us),
            **more,
        }
        self.recorder.end(CapturedResponse(content_type="application/json", **how))

    def ask(self, body: Body, content: Any = None, **more: Any) -> str:
        id_ = self.begin(body, **more)
        self.end(id_, content)
        return id_


def response_body(content: Any) -> Body:
    """Return an answer of Anthropic's."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    is_call = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": blocks,
        "stop_reason": "tool_use" if is_call else "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def request_body(*messages: Any, system: Any = "You are Jack.", **more: Any) -> Body:
    """Return a request of Anthropic's: texts are the user's and the assistant's in turn."""
    said = [
        one if isinstance(one, dict) else {"role": ("user", "assistant")[at % 2], "content": one}
        for at, one in enumerate(messages)
    ]
    return {"model": "claude", "max_tokens": 10, "system": system, "messages": said, **more}


def log_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def read_events(folder: Path) -> list[ev.Event]:
    """Return the events of the one session in a folder."""
    (path,) = log_paths(folder)
    return list(iter_events(path))


def read_events_of_type(folder: Path, kind: type[Any]) -> list[Any]:
    return [event for event in read_events(folder) if isinstance(event, kind)]


def agent_names(folder: Path) -> list[str | None]:
    """Return the names of the agents of the one session, in the order of their births."""
    return [event.name for event in read_events_of_type(folder, ev.AgentCreated)]


def rebuild_bodies(folder: Path) -> dict[str, Body]:
    """Return the bodies of all calls of a folder, from its logs alone."""
    found: dict[str, Body] = {}
    for path in log_paths(folder):
        log = RequestRebuilder(iter_events(path))
        for id_, request in log.requests.items():
            call = (request.wire or {})["call"]
            assert call not in found
            found[call] = log.body(id_)
    return found


def check_rebuilt_bodies(folder: Path, clients: Sequence[RecordedClient]) -> None:
    """Check that every request of these clients is in the log, as it was sent."""
    sent = {id_: one for client in clients for id_, one in client.sent_bodies.items()}
    found = rebuild_bodies(folder)
    assert sorted(found) == sorted(sent)
    for id_, one in sent.items():
        assert canonical.to_canonical_bytes(found[id_]) == canonical.to_canonical_bytes(one), id_
