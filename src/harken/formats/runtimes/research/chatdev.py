"""Logs of ChatDev (`WareHouse/*/*.log`): a company of agents that talk in phases, two at a time.

A record begins with a time in brackets and ends where the next one begins. What was said names its
speaker. A phase begins with a record of its two roles, and each of its messages quotes the system
prompt of the role that hears it.

Source: docs/formats/chatdev.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from harken.errors import FormatError
from harken.formats.json_records import truncate_title
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
)
from harken.formats.runtimes.json_lines import normalize_time, read_bytes
from harken.formats.runtimes.research.documents import digest_id
from harken.formats.runtimes.research.group_chat import Speech, read_group_chat

NAME = "chatdev-v1"
_HEADER = r"\[(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d) [A-Z]+\] "
_RECORD_PATTERN = re.compile(rf"^{_HEADER}", re.MULTILINE)
_BEGINNING_PATTERN = re.compile(rf"\s*{_HEADER}\*\*\[Preprocessing\]\*\*".encode())
_TITLE_PATTERN = re.compile(
    r"(?:([^\n:*|]{1,60}): )?\*\*(?:\[([^\]\n]{1,60})\]|([^*\n]{1,200}))\*\*"
)
_TURN_PATTERN = re.compile(r"(.+)<->(.+) on : (.+), turn (\d+)")
_ROW_PATTERN = re.compile(r"^\| \*\*(\w+)\*\* \| (.*?) \|$", re.MULTILINE)
_FIELD_PATTERN = re.compile(r"^\*\*(\w+)\*\*: (.*)$", re.MULTILINE)
_STARTED_PATTERN = re.compile(r"\*\*ChatDev Starts\*\* \((\d+)\)")
_USAGE_PATTERN = re.compile(r"^(prompt_tokens|completion_tokens): (\d{1,9})\s*$", re.MULTILINE)
_PLAIN_PATTERN = re.compile(r"([A-Z][A-Za-z ]{1,40}): (?=<INFO>)")
_TABLES = ("RolePlaying", "chatting")
_OPENING = "Start Chat"


def is_session_file(path: str, beginning: bytes) -> bool:
    """Whether a file is a log, by its first record."""
    return path.endswith(".log") and bool(_BEGINNING_PATTERN.match(beginning))


def iter_steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of the chat and of its agents. Raises FormatError."""
    text = _read_text(source)
    starts = [match.start() for match in _RECORD_PATTERN.finditer(text)]
    log = _Log(reading)
    if not starts:
        raise FormatError(NAME, "nobody speaks in it")
    if text[: starts[0]].strip():
        reading.lines += 1
        reading.count_uninterpreted("before the first record")
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        log.add(text[start:end])
    if not log.speeches:
        raise FormatError(NAME, "nobody speaks in it")
    reading.session_id = log.session_id or digest_id(text)
    yield from read_group_chat(log.speeches, log.prompts, {}, reading)


def _read_text(source: SessionFile) -> str:
    text = read_bytes(source, NAME).decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n")


class _Log(msgspec.Struct):
    """The records of a log, as they are read."""

    reading: ReadReport
    speeches: list[Speech] = []
    prompts: dict[tuple[str, int], str] = {}
    """Agent and scene -> its system prompt."""
    session_id: str = ""
    _scene: int = 0
    _roles: tuple[str, str] = ("", "")
    """The assistant role and the user role of the phase."""
    _phase: str = ""
    _model: str = ""
    _usage: dict[str, int] = {}
    """Of the calls since the last message."""

    def add(self, record: str) -> None:
        """Read a record. One without content of the conversation is counted by its title."""
        self.reading.lines += 1
        header = _RECORD_PATTERN.match(record)
        body = record[header.end() :] if header else record
        time = None if header is None else _parse_time(header)
        title = _TITLE_PATTERN.match(body)
        speaker, name, turn = title.groups() if title else (None, None, None)
        if speaker == "System" and name in _TABLES:
            self._begin_scene(dict(_ROW_PATTERN.findall(body)), is_chat=name == _TABLES[0])
        elif name == "OpenAI_Usage_Info Receive":
            for member, count in _USAGE_PATTERN.findall(body):
                self._usage[member] = self._usage.get(member, 0) + int(count)
        elif name == "Preprocessing":
            self._describe(body)
        elif title and speaker and name == _OPENING:
            self._add_speech(speaker, body[title.end() :], time, is_scripted=True)
        elif title and speaker and turn and _TURN_PATTERN.fullmatch(turn):
            self._add_speech(speaker, body[title.end() :], time)
        elif plain := _PLAIN_PATTERN.match(body):
            self._add_speech(plain[1], body[plain.end() :], time)
        else:
            kind = name or body.strip().split(" ", 1)[0] or "blank"
            self.reading.count_uninterpreted(kind)
            return
        self.reading.used_lines += 1

    def _begin_scene(self, rows: dict[str, str], *, is_chat: bool) -> None:
        self._phase = rows.get("phase_name", self._phase)
        self._model = rows.get("model_type", self._model).removeprefix("ModelType.")
        if is_chat:
            self._scene += 1
            self._roles = rows.get("assistant_role_name", ""), rows.get("user_role_name", "")

    def _describe(self, body: str) -> None:
        fields = dict(_FIELD_PATTERN.findall(body))
        started = _STARTED_PATTERN.search(body)
        parts = [fields.get("project_name", ""), started[1] if started else ""]
        self.session_id = "-".join(filter(None, parts))
        self.reading.title = truncate_title(fields.get("task_prompt", ""))

    def _add_speech(
        self, speaker: str, text: str, time: str | None, *, is_scripted: bool = False
    ) -> None:
        others = [role for role in self._roles if role and role != speaker]
        text = text.strip()
        if text.startswith("[") and "]\n\n" in text and others:
            prompt, _, text = text[1:].partition("]\n\n")
            self.prompts.setdefault((others[0], self._scene), prompt)
        source: dict[str, Any] = {"phase": self._phase} if self._phase else {}
        if not is_scripted:
            source |= {"model": self._model} if self._model else {}
            source |= {"usage": self._usage} if self._usage else {}
            self._usage = {}
        speech = Speech(
            text=text.strip(),
            speaker=speaker,
            hearers=others,
            time=time,
            source=source,
            scene=self._scene,
            is_scripted=is_scripted,
        )
        self.speeches.append(speech)


def _parse_time(header: re.Match[str]) -> str | None:
    """Return the time of a record. The day stands before the month, and the zone is unknown."""
    year, day, month, clock = header.groups()
    try:
        time = datetime.fromisoformat(f"{year}-{month}-{day}T{clock}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return normalize_time(time.isoformat())


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="chatdev",
    is_session_file=is_session_file,
    steps=iter_steps,
    copies_histories=False,
)
