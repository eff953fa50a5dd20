"""Helpers for tests of recordings: a provider client whose calls are recorded."""

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
    """Return a recorder that appends its notices to a list. Without a list, a notice is an error."""
    options = RecorderOptions(durability="none", **more)
    tell = (told if told is not None else RejectedNotices()).append
    return Recorder(folder, store, tell=tell, options=options)


class RejectedNotices(list[str]):
    """A list that raises AssertionError for each notice."""

    def append(self, line: str) -> None:
        raise AssertionError(line)


@dataclass
class RecordedClient:
    """A client that sends request bodies and stores them."""

    recorder: Recorder
    hints: ClientHints = field(default_factory=ClientHints)
    sent_bodies: dict[str, Body] = field(default_factory=dict)
    """Call id -> request body."""
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
        """End a call with blocks, a text, or a full body. Without content the call was cut."""
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
    """Return a response body of Anthropic."""
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
    """Return a request body of Anthropic. Texts alternate between user and assistant."""
    contents = [
        message
        if isinstance(message, dict)
        else {"role": ("user", "assistant")[index % 2], "content": message}
        for index, message in enumerate(messages)
    ]
    return {"model": "claude", "max_tokens": 10, "system": system, "messages": contents, **more}


def log_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def read_events(folder: Path) -> list[ev.Event]:
    """Return the events of the only session in a folder."""
    (path,) = log_paths(folder)
    return list(iter_events(path))


def read_events_of_type(folder: Path, kind: type[Any]) -> list[Any]:
    return [event for event in read_events(folder) if isinstance(event, kind)]


def agent_names(folder: Path) -> list[str | None]:
    """Return the names of the agents of the only session, in the order of their creation."""
    return [event.name for event in read_events_of_type(folder, ev.AgentCreated)]


def rebuild_bodies(folder: Path) -> dict[str, Body]:
    """Return the bodies of all calls of a folder, rebuilt from its logs."""
    bodies: dict[str, Body] = {}
    for path in log_paths(folder):
        log = RequestRebuilder(iter_events(path))
        for id_, request in log.requests.items():
            call = (request.wire or {})["call"]
            assert call not in bodies
            bodies[call] = log.body(id_)
    return bodies


def check_rebuilt_bodies(folder: Path, clients: Sequence[RecordedClient]) -> None:
    """Check that the logs rebuild each request of these clients exactly."""
    sent_bodies = {id_: body for client in clients for id_, body in client.sent_bodies.items()}
    bodies = rebuild_bodies(folder)
    assert sorted(bodies) == sorted(sent_bodies)
    for id_, body in sent_bodies.items():
        assert canonical.to_canonical_bytes(bodies[id_]) == canonical.to_canonical_bytes(body), id_
