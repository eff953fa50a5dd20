"""A conversation of Claude Code that is recorded and imported: both are views of one session.

It is a script of exchanges. The requests have reminders of the client, and the file has local
commands and the exchanges that were not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from harken.core.canonical import to_json_line
from harken.index.session_index import SessionIndex
from harken.recording.exchange import ClientHints
from harken.store.base import Store
from tests.recording_kit import RecordedClient, open_recorder, request_body
from tests.unit.formats.transcript_kit import (
    Block,
    Transcript,
    encode_lines,
    text_block,
    thinking_block,
    tool_result_block,
    tool_use_block,
)
from tests.unit.index.index_kit import Imports

NATIVE = "5e551011-0000-4000-8000-000000000001"
NAME = f"claude:{NATIVE}"
SUBAGENT = "a7c0ffee"
MODEL = "claude-opus-4-5-20251101"
_REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"


@dataclass(frozen=True)
class Exchange:
    """A message to an agent, and its answer."""

    answer: str
    prompt: str | None = None
    """The text of the message. None if it is the result of the call in the last answer."""
    has_call: bool = False
    """Whether the answer calls a tool."""
    is_recorded: bool = True
    """Whether it passes the proxy."""
    is_failed: bool = False
    """Whether the message is the result of a failed call."""
    has_command: bool = False
    """Whether the user enters a local command before it."""
    agent: str = ""


@dataclass
class TwoSources:
    """A script, as requests and as files."""

    exchanges: Sequence[Exchange]
    folder: Path
    """The folder of the log."""
    store: Store | None = None
    position: int = 0
    """The number of exchanges that were played to the recorder."""
    _client: RecordedClient | None = None

    def record(self, count: int = 1) -> None:
        """Play the next exchanges to the recorder."""
        for index in range(self.position, min(self.position + count, len(self.exchanges))):
            self.position = index + 1
            if self.exchanges[index].is_recorded:
                self._record(index)

    def close(self) -> None:
        """End the run of the recorder. The next exchange begins another."""
        if self._client is not None:
            self._client.recorder.close()
            self._client = None

    def files(self, count: int) -> dict[str, bytes]:
        """Return the session files after some exchanges, by name."""
        main, child = Transcript(NATIVE), Transcript(NATIVE)
        child.shared = {"isSidechain": True, "agentId": SUBAGENT}
        for index, exchange in enumerate(self.exchanges[:count]):
            self._write(child if exchange.agent else main, index)
        files = {f"{NATIVE}.jsonl": main.data}
        if child.records:
            records = [{**record, "uuid": f"c{record['uuid'][1:]}"} for record in child.records]
            for record in records:
                parent = record["parentUuid"]
                record["parentUuid"] = parent and f"c{parent[1:]}"
                record["timestamp"] = record["timestamp"].replace("T12:", "T13:")
            files[f"{NATIVE}/subagents/agent-{SUBAGENT}.jsonl"] = encode_lines(records)
        return files

    def _write(self, transcript: Transcript, index: int) -> None:
        exchange = self.exchanges[index]
        if exchange.has_command:
            transcript.user(f"<command-name>/cost</command-name> {index}")
        if exchange.prompt is not None:
            transcript.user(exchange.prompt)
        else:
            error: dict[str, Any] = {"is_error": True} if exchange.is_failed else {}
            transcript.result(self._call_id(index), f"result {index}", **error)
        transcript.answer(*self._blocks(index), id=_response_id(index), model=MODEL)

    def _record(self, index: int) -> None:
        exchange = self.exchanges[index]
        if self._client is None:
            self._client = RecordedClient(open_recorder(self.folder, store=self.store))
        hints = ClientHints(
            client="claude-code",
            session=NATIVE,
            agent=exchange.agent,
            name="Explore" if exchange.agent else "",
        )
        body = request_body(
            *self._messages(index),
            system="You explore." if exchange.agent else "You are Jack.",
            model=MODEL,
            tools=[{"name": "Bash", "description": "d", "input_schema": {}}],
        )
        call = f"call-{index:05d}"
        self._client.sent_bodies[call] = body
        self._client.recorder.begin(self._client.captured_request(call, hints))
        response = {
            "id": _response_id(index),
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": self._wire_blocks(index),
            "stop_reason": "tool_use" if exchange.has_call else "end_turn",
            "usage": {"input_tokens": 100 + index, "output_tokens": 5},
        }
        self._client.end(call, whole=response)

    def _messages(self, index: int) -> list[dict[str, Any]]:
        """Return the messages of a request: all earlier exchanges of the agent, and the new one."""
        messages: list[dict[str, Any]] = []
        for number, exchange in enumerate(self.exchanges[: index + 1]):
            if exchange.agent == self.exchanges[index].agent:
                messages.append(self._user_message(number, is_first=not messages))
                if number < index:
                    messages.append({"role": "assistant", "content": self._wire_blocks(number)})
        return messages

    def _user_message(self, number: int, *, is_first: bool) -> dict[str, Any]:
        exchange = self.exchanges[number]
        if exchange.prompt is None:  # The file alone knows that a call failed.
            text = f"result {number}\n{_REMINDER}"
            return {"role": "user", "content": [tool_result_block(self._call_id(number), text)]}
        reminder = [text_block(_REMINDER)] if is_first else []
        return {"role": "user", "content": [*reminder, text_block(exchange.prompt)]}

    def _blocks(self, index: int) -> list[Block]:
        """Return the content of an answer."""
        exchange = self.exchanges[index]
        call = [tool_use_block(_format_call(index), path="/cafe")] if exchange.has_call else []
        return [text_block(exchange.answer), *call]

    def _wire_blocks(self, index: int) -> list[Block]:
        """Return the content of an answer as the provider sends it: with thinking before calls."""
        thinking = [thinking_block("A call.")] if self.exchanges[index].has_call else []
        return [*thinking, *self._blocks(index)]

    def _call_id(self, index: int) -> str:
        """Return the id of the call that an exchange answers: the last one of its agent."""
        agent = self.exchanges[index].agent
        earlier = [
            number
            for number, exchange in enumerate(self.exchanges[:index])
            if exchange.agent == agent and exchange.has_call
        ]
        return _format_call(earlier[-1])


def _response_id(index: int) -> str:
    return f"msg_01{index:020d}"


def _format_call(index: int) -> str:
    return f"toolu_{index:018d}"


_TABLES = {
    "sessions": "SELECT name, runtime, native, title, project, began, ended, outcome, log "
    "FROM sessions",
    "agents": "SELECT s.name, a.name, a.principal, a.template, a.relation, p.name, c.name "
    "FROM agents a JOIN sessions s ON s.id = a.session_id LEFT JOIN agents p ON p.id = a.parent_id "
    "LEFT JOIN commits c ON c.id = a.tip_id",
    "commits": "SELECT c.name, s.name, a.name, type, checkpoint, is_repeat FROM commits c "
    "JOIN sessions s ON s.id = c.session_id JOIN agents a ON a.id = c.agent_id",
    "messages": "SELECT s.name, a.name, c.name, m.position, m.role, m.kind, m.time, m.hash, "
    "m.call_id, m.is_error, m.is_repeat, m.event FROM messages m "
    "JOIN sessions s ON s.id = m.session_id JOIN agents a ON a.id = m.agent_id "
    "LEFT JOIN commits c ON c.id = m.commit_id",
    "tool_calls": "SELECT a.name, t.name, t.call_id, t.time, m.event, m.hash, r.event, r.hash, "
    "t.is_error, t.duration FROM tool_calls t JOIN agents a ON a.id = t.agent_id "
    "JOIN messages m ON m.id = t.message_id LEFT JOIN messages r ON r.id = t.result_id",
    "requests": "SELECT s.name, a.name, r.response, r.model, r.time, r.stop_reason, "
    "r.input_tokens, r.output_tokens, r.cost_usd, r.is_cost_told, r.is_recorded, m.event, m.hash "
    "FROM requests r JOIN sessions s ON s.id = r.session_id JOIN agents a ON a.id = r.agent_id "
    "LEFT JOIN messages m ON m.id = r.message_id",
}


@dataclass
class IndexContent:
    """All rows of an index, without row ids."""

    tables: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, database: apsw.Connection) -> IndexContent:
        content = cls()
        for name, query in _TABLES.items():
            rows = [
                to_json_line(
                    [value.hex() if isinstance(value, bytes) else value for value in row]
                ).decode()
                for row in database.execute(query)
            ]
            content.tables[name] = sorted(rows)
        words = "SELECT count(*) FROM words WHERE words MATCH 'cafe OR result OR answer OR go'"
        content.tables["words"] = [str(row) for row in database.execute(words)]
        return content


def read_rebuilt_index(imports: Imports) -> IndexContent:
    """Return the content of a new index of the same sources."""
    with closing(SessionIndex(None)) as facts:
        facts.update(imports.store, imports.catalogue, imports.logs)
        return IndexContent.read(facts.database)
