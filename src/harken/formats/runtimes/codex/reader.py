"""The reader of Codex rollouts, of all versions since 0.2.

`response_item` lines are the complete input of the model. So a step is a round: the input to the
model, its answer, and the results of its calls. All other lines repeat these for display, or hold
metadata about them: they are counted, and their metadata is attached.

Source: docs/formats/codex.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import msgspec
from blake3 import blake3

from harken.core import canonical, structs
from harken.core.commits import Checkpoint, CommitType
from harken.core.messages import Message, TextPart, parts_of, text_of
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    get_count,
    get_object,
    get_objects,
    get_text,
    truncate_title,
)
from harken.formats.providers.openai_responses import (
    ITEM_TYPES,
    METADATA_KEY,
    build_answer_message,
    get_call_id,
    is_answer,
    parse_input_item,
)
from harken.formats.providers.openai_responses import build_instructions_entry as instructions
from harken.formats.runtimes.base import (
    ImportStep,
    ReadReport,
    RuntimeFormat,
    SessionFile,
    SourceLine,
)
from harken.formats.runtimes.codex.exit_codes import parse_exit_code
from harken.formats.runtimes.codex.resume_request import (
    NO_SUMMARY,
    RecentPrompts,
    build_resume_request,
)
from harken.formats.runtimes.codex.rollout_state import RolloutState
from harken.formats.runtimes.codex.turn_settings import TurnSettings
from harken.formats.runtimes.codex.writer import write_session
from harken.formats.runtimes.json_lines import normalize_time, read_records
from harken.formats.runtimes.new_session import build_format
from harken.formats.runtimes.read_point import (
    EarlierStepChanged,
    ReadPoint,
    decode_state,
    encode_state,
)
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.runtimes.user_text import CODEX_PHRASES, CODEX_TAGS
from harken.formats.tool_calls import iter_items

NAME = "codex-v1"
_HEAD_MEMBERS = (b'"session_meta"', b'"record_type"', b'"response_item"', b'"turn_context"')
_OLD_HEAD = (b'"instructions"', b'"git"')
_FRAGMENT_MEMBERS = (b'"timestamp"', b'"payload"')
_FRAGMENT_DIGITS = 12
_CHECKED_LINES, _CHECKED_BYTES = 5, 256
"""Limits of the search for a record in a fragment, which may begin in the middle of a line."""
_FILE_PATTERN = re.compile(r"rollout-[^/\\]*\.jsonl")
_CODEX_TEXT_PATTERN = re.compile(
    rf"(?:{'|'.join(map(re.escape, CODEX_PHRASES))}|<(?:{'|'.join(CODEX_TAGS)})\b)"
)
"""Matches texts in the user's name that Codex wrote."""
_COUNT_NAMES = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cache_read_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}
"""Harken's names of Codex's token counts. In both, the input includes the cached part, and the
output includes thinking."""


def is_session_file(path: str, head: bytes) -> bool:
    """Whether a file is a rollout, or a part of one, by its first lines.

    An empty file is matched by name.

    A part may lack the header, and begin with any line, also in the middle of a line.
    """
    lines = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", _CHECKED_LINES)
    if not lines[0]:
        return _FILE_PATTERN.search(path) is not None
    is_old = b'"id"' in lines[0] and all(name in lines[0] for name in _OLD_HEAD)
    is_head = is_old or any(name in lines[0] for name in _HEAD_MEMBERS)
    if is_head and lines[0].startswith(b"{"):
        return True
    return any(_is_part(line[:_CHECKED_BYTES]) for line in lines[:_CHECKED_LINES])


def _is_part(line: bytes) -> bool:
    """Whether a line is of a rollout, by its beginning. It is called for every file of any kind."""
    if not line.startswith(b"{") or not all(name in line for name in _FRAGMENT_MEMBERS):
        return False
    return any(name in line for name in (*_HEAD_MEMBERS, b'"event_msg"', b'"compacted"'))


def iter_steps(source: SessionFile, report: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of a rollout. Raises FormatError if no line of it is of a rollout."""
    rollout = _Rollout(report) if source.point is None else _load_rollout(source.point, report)
    for line, record in read_records(source, report):
        kind, payload = _unwrap(record)
        rollout.first = rollout.first or line.data
        if kind in ("response_item", "compacted"):
            report.used_lines += 1
        else:
            report.count_uninterpreted(
                f"{kind}/{get_text(payload, 'type')}" if kind == "event_msg" else kind
            )
        rollout.is_rollout = rollout.is_rollout or kind in _KINDS
        match kind:
            case "session_meta":
                rollout.read_header(payload, normalize_time(record.get("timestamp")))
            case "response_item":
                yield from rollout.add_item(payload, normalize_time(record.get("timestamp")), line)
            case "compacted":
                yield from rollout.add_compaction(
                    payload, normalize_time(record.get("timestamp")), line
                )
            case "turn_context":
                rollout.begin_turn(payload)
            case "event_msg":
                yield from rollout.process_event(payload)
    if not rollout.is_rollout:
        raise FormatError(NAME, "it has no line of a rollout")
    yield from rollout.finish_step()


_ORIGINATOR = "codex"
"""The beginning of the names of all of Codex's own programs."""
_MAX_SAVED_TURNS = 200
"""The number of last prompts to which a rollback may return after a read point."""


def _load_rollout(point: ReadPoint, report: ReadReport) -> _Rollout:
    """Return the state at a read point. Raises EarlierStepChanged if it is not of this version."""
    state = decode_state(point, RolloutState)
    rollout = _Rollout(report, first=state.first or b"-", is_rollout=True, turn=state.turn)
    rollout.instructions_text, rollout.agent = state.instructions, state.agent
    rollout.parent, rollout.turns = state.parent, state.turns
    rollout.has_all_turns = state.has_all_turns
    rollout.prompts = RecentPrompts.from_texts(state.prompts)
    rollout.total, rollout.usage = canonical.from_json(state.total), Counter(state.usage)
    return rollout


_KINDS = frozenset({"session_meta", "response_item", "compacted", "turn_context", "event_msg"})


def _unwrap(record: Record) -> tuple[str, Record]:
    """Return the kind and the payload of a line. Old versions wrote items without a wrapper."""
    payload = record.get("payload")
    if isinstance(payload, dict):
        return get_text(record, "type"), payload
    if "record_type" in record:
        return "state", record
    kind = get_text(record, "type")
    if kind:
        return ("response_item" if kind in ITEM_TYPES else kind), record
    return ("session_meta" if "id" in record and "timestamp" in record else "unknown"), record


class _Rollout(msgspec.Struct):
    """The state of reading a rollout, with the current step."""

    reading: ReadReport
    first: bytes = b""
    """The first record, from which a fragment without a header is named."""
    is_rollout: bool = False
    turn: TurnSettings = msgspec.field(default_factory=TurnSettings)
    instructions_text: tuple[str, str | None] | None = None
    """The client's instructions for the model and their time, which are in the header and in no
    item."""
    agent: str = ""
    """The agent of the rollout, if another session spawned it."""
    parent: str | None = None
    turns: list[str | None] = msgspec.field(default_factory=list)
    """The step before each prompt, as the target of a rollback."""
    has_all_turns: bool = True
    """Whether no earlier prompts were dropped at a read point."""
    prompts: RecentPrompts = msgspec.field(default_factory=RecentPrompts)
    total: Record = msgspec.field(default_factory=dict)
    """The tokens of all previous answers, which Codex repeats."""
    line: int = 0
    entries: list[ConversationEntry] = msgspec.field(default_factory=list)
    answer: list[Record] = msgspec.field(default_factory=list)
    answer_time: str | None = None
    calls: set[str] = msgspec.field(default_factory=set)
    """The ids of the calls in the answer."""
    usage: Counter[str] = msgspec.field(default_factory=Counter)
    is_answered: bool = False
    """Whether the answer of this step has ended, so that the next item belongs to another step."""
    compaction: str | None = None
    """The summary, if the step is a compaction."""

    def read_header(self, meta: Record, time: str | None) -> None:
        """Read a header. The first one is of this session; a fork also has that of its origin."""
        report = self.reading
        if not report.session_id and (self.entries or self.answer):
            self._name_fragment()
        if report.session_id:
            return
        report.session_id = get_text(meta, "id")
        self.turn.is_codex = get_text(meta, "originator").lower().startswith(_ORIGINATOR)
        report.folder = get_text(meta, "cwd")
        report.version = get_text(meta, "cli_version")
        spawned = get_object(get_object(get_object(meta, "source"), "subagent"), "thread_spawn")
        report.parent = get_text(meta, "forked_from_id") or get_text(spawned, "parent_thread_id")
        if get_text(spawned, "parent_thread_id"):
            self.agent = report.session_id
        text = get_text(get_object(meta, "base_instructions"), "text")
        if text:
            self.instructions_text = text, time

    def begin_turn(self, context: Record) -> None:
        """Read the settings of a turn. An answer before it is of the previous turn."""
        self.is_answered = self.is_answered or bool(self.answer)
        self._close_answer()
        self.turn.update(context)

    def add_item(self, item: Record, time: str | None, line: SourceLine) -> Iterator[ImportStep]:
        """Add an item that the model reads."""
        if is_answer(item):
            if self.is_answered:
                yield from self.finish_step()
            self._open_step(line)
            self._add_to_answer(item, time or self.answer_time)
            return
        entry, is_prompt = _user_entry(item, time)
        if is_prompt or (entry.message.role != "tool" and (self.is_answered or self.answer)):
            yield from self.finish_step()
        self._open_step(line)
        self._close_answer()
        if is_prompt:
            self.turns.append(self.parent)
            self._add_prompt(text_of(entry.message.content))
        self.is_answered = self.is_answered or entry.message.role == "tool"
        self.entries.append(entry)

    def add_compaction(
        self, payload: Record, time: str | None, line: SourceLine
    ) -> Iterator[ImportStep]:
        """Add a compaction, which replaces the previous context.

        The first versions did not record the replacement: Codex then uses the last prompts and the
        summary.
        """
        yield from self.finish_step()
        self._set_point(line)
        self.compaction = get_text(payload, "message")
        self._open_step(line)
        if isinstance(payload.get("replacement_history"), list):
            self.turn.is_complete = True
            self._replace_history(get_objects(payload, "replacement_history"), time)
        else:
            self.turn.is_complete = False
            prompts = [(text, PROMPT) for text in self.prompts.latest()]
            for text, kind in [*prompts, (self.compaction or NO_SUMMARY, SYSTEM)]:
                self.entries.append(ConversationEntry(Message("user", text), time, {"kind": kind}))
        yield from self.finish_step()

    def process_event(self, event: Record) -> Iterator[ImportStep]:
        """Process an event. Most events repeat an item for display."""
        match get_text(event, "type"):
            case "token_count":
                self._add_usage(get_object(event, "info"))
            case "thread_rolled_back":
                turns = get_count(event, "num_turns") or 0
                if turns > len(self.turns) and not self.has_all_turns:
                    raise EarlierStepChanged
                turns = min(turns, len(self.turns))
                if turns:
                    yield from self.finish_step()
                    if self.parent is not None:
                        self.reading.branches.append((self.agent, self.parent))
                    self.parent = self.turns[-turns]
                    del self.turns[-turns:]
                    self.prompts.forget(turns)
            case "collab_agent_spawn_end":
                self._report_spawn(get_text(event, "new_thread_id"))
            case "item_completed" if get_text(get_object(event, "item"), "tool") == "spawn_agent":
                for agent in get_objects(get_object(event, "item"), "receiver_agents"):
                    self._report_spawn(get_text(agent, "thread_id"))

    def _report_spawn(self, agent: str) -> None:
        """Report the step that spawned an agent with a file of its own."""
        step = str(self.line) if self.entries or self.answer else self.parent
        if agent and step is not None:
            self.reading.spawned[agent] = step

    def finish_step(self) -> Iterator[ImportStep]:
        """End the step, if it is not empty."""
        self._close_answer()
        if self.entries:
            self._attach_usage()
            if not self.reading.session_id:
                self._name_fragment()
            id_ = str(self.line)
            kind: tuple[CommitType, Checkpoint] = ("delta", "import")
            if self.compaction is not None:
                kind = ("compaction", "compaction")
            elif self.agent and self.parent is None:
                kind = ("snapshot", "spawn")
            yield ImportStep(
                id=id_,
                parent=self.parent,
                agent=self.agent,
                type=kind[0],
                trigger=kind[1],
                entries=self.entries,
                summary=self.compaction or "",
            )
            self.parent = self.reading.tips[self.agent] = id_
        self.entries, self.is_answered, self.compaction = [], False, None

    def _name_fragment(self) -> None:
        """Name a part of a rollout, which begins without a header, by its first record.

        It is no session: with a session's id it would be taken for the complete session. The name
        is stable when the part grows, and is never a prefix of a session's id.
        """
        name = blake3(self.first).hexdigest()[:_FRAGMENT_DIGITS]
        self.reading.session_id = f"fragment-{name}"
        self.reading.notes.append("it has no header: it is a part of a session")

    def _open_step(self, line: SourceLine) -> None:
        """Begin a step at a line, unless one is open."""
        if self.entries or self.answer:
            return
        if self.compaction is None:
            self._set_point(line)
        self.line = line.number
        if self.instructions_text and (self.parent is None or self.compaction is not None):
            self.entries.append(instructions(*self.instructions_text))

    def _set_point(self, line: SourceLine) -> None:
        """Set the read point to a line that begins a step, and that is counted already."""
        report = self.reading
        if not report.needs_point(line.start):
            return
        turns = self.turns[-_MAX_SAVED_TURNS:]
        state = RolloutState(
            first=b"" if report.session_id else self.first,
            turn=self.turn,
            instructions=self.instructions_text,
            agent=self.agent,
            parent=self.parent,
            turns=turns,
            has_all_turns=self.has_all_turns and len(turns) == len(self.turns),
            prompts=self.prompts.texts(),
            total=canonical.to_json_line(self.total),
            usage=dict(self.usage),
        )
        totals = report.copy_totals(lines=report.lines - 1, used_lines=report.used_lines - 1)
        report.set_point(line, encode_state(state), totals, [self.parent, *turns])

    def _add_to_answer(self, item: Record, time: str | None) -> None:
        """Add an item to the answer. The calls of one message have unique ids."""
        id_ = get_call_id(item)
        if id_ in self.calls:
            self._close_answer()
        if id_ is not None:
            self.calls.add(id_)
        self.answer.append(item)
        self.answer_time = time

    def _close_answer(self) -> None:
        if self.answer:
            message = build_answer_message(self.answer)
            source: Record = {"model": self.turn.model} if self.turn.model else {}
            for item in self.answer:
                self.turn.note_item(item)
            has_instructions = self.instructions_text is not None
            source |= self.turn.state_request(has_instructions=has_instructions).to_source()
            if any(part.extra for part in iter_items(message)):
                source[METADATA_KEY] = {}  # The writer gives extra members to Codex alone.
            response_id = next(filter(None, (get_text(item, "id") for item in self.answer)), "")
            if response_id:
                source["id"] = response_id
            self.entries.append(ConversationEntry(message, self.answer_time, source or None))
            self.answer, self.answer_time, self.calls = [], None, set()

    def _add_prompt(self, prompt: str) -> None:
        self.prompts.add(prompt)
        self.reading.title = self.reading.title or truncate_title(prompt)

    def _replace_history(self, history: list[Record], time: str | None) -> None:
        self.prompts = RecentPrompts()
        for item in history:
            if is_answer(item):
                self._add_to_answer(item, time)
                continue
            self._close_answer()
            entry, is_prompt = _user_entry(item, time)
            if is_prompt:
                self.prompts.add(text_of(entry.message.content))
            self.entries.append(entry)

    def _add_usage(self, info: Record) -> None:
        """Add the growth of the total tokens, which Codex often repeats."""
        total, last = get_object(info, "total_token_usage"), get_object(info, "last_token_usage")
        if not total:
            return
        previous, self.total = self.total, total
        growth = {
            name: (get_count(total, name) or 0) - (get_count(previous, name) or 0)
            for name in _COUNT_NAMES
        }
        if not previous or min(growth.values()) < 0:  # The total is of a fork, or was reset.
            growth = {name: get_count(last, name) or 0 for name in _COUNT_NAMES}
        self.usage.update({_COUNT_NAMES[name]: tokens for name, tokens in growth.items() if tokens})
        self.is_answered = self.is_answered or bool(self.answer)

    def _attach_usage(self) -> None:
        """Attach the usage to the last answer of the step, or to its last entry."""
        if not self.usage:
            return
        roles = [entry.message.role for entry in self.entries]
        index = len(roles) - 1
        if "assistant" in roles:
            index -= roles[::-1].index("assistant")
        entry = self.entries[index]
        self.entries[index] = structs.replace(
            entry, source={**(entry.source or {}), "usage": {**self.usage}}
        )
        self.usage.clear()


def _user_entry(item: Record, time: str | None) -> tuple[ConversationEntry, bool]:
    """Return the entry of an item of another role than the model, and whether it is a prompt."""
    entry = parse_input_item(item, time)
    if entry.message.role == "tool":
        code = parse_exit_code(text_of(entry.message.content))
        code_member = {} if code is None else {"exit_code": code}
        return structs.replace(entry, source={**(entry.source or {}), **code_member} or None), False
    if entry.message.role != "user":
        return entry, False
    kind = PROMPT if _is_prompt(entry.message) else SYSTEM
    return structs.replace(entry, source={"kind": kind, **(entry.source or {})}), kind == PROMPT


def _is_prompt(message: Message) -> bool:
    """Whether a user or a parent agent wrote the message, and not Codex in the user's name."""
    texts = [part.text for part in parts_of(message.content) if isinstance(part, TextPart)]
    return not any(_CODEX_TEXT_PATTERN.match(text.lstrip()[:40].lower()) for text in texts)


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="codex",
    is_session_file=is_session_file,
    steps=iter_steps,
    build_resume_request=build_resume_request,
    writes=write_session,
)
FORMAT = build_format(NATIVE, "application/jsonl")
