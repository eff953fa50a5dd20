"""Codex: the rollouts of its sessions, of all versions since 0.2.

One idea: `response_item` lines are what the model sees, and nothing else is. So a step is a round:
what was put to the model, its answer, and the results of the calls in it. All other lines repeat
these for display, or are facts about them: they are counted, and told where they belong.

Source: docs/formats/codex.md.

How a command ended that Codex ran: what stands in front of the output, in words.

One idea: an output may say anything, so only what Codex itself writes before it counts.

Source: docs/formats/codex.md, "What a command ended with".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from blake3 import blake3

from harken.core import canonical
from harken.core.commits import Checkpoint, CommitType
from harken.core.messages import Message, TextPart, text_of
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    get_count,
    get_object,
    get_objects,
    get_text,
    title_of,
)
from harken.formats.providers.openai_responses import (
    ITEMS,
    call_id,
    heard,
    instructions,
    is_answer,
    said,
)
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.codex.resume_request import (
    NO_SUMMARY,
    RecentPrompts,
    build_resume_request,
)
from harken.formats.runtimes.codex.writer import writes
from harken.formats.runtimes.json_lines import read_records, time_of
from harken.formats.runtimes.new_session import format_of
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.runtimes.user_text import CODEX_PHRASES, CODEX_TAGS

_HEAD = 400
"""In so many characters stands what Codex writes before an output."""


_TOLD = re.compile(r"^(?:Process exited with code|Exit code:) (-?[0-9]{1,10})$", re.MULTILINE)


_OUTPUT = re.compile(r"^Output:", re.MULTILINE)


_OLDER = '{"output":'


def exit_code(result: str) -> int | None:
    r"""Return the exit code in the result of a call; None: it does not say one.

    >>> exit_code("Wall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno")
    2
    >>> exit_code("Output:\nExit code: 2\n")
    """
    if result.startswith(_OLDER):
        return _of_older(result)
    head = result[:_HEAD]
    end = _OUTPUT.search(head)
    told = _TOLD.search(head[: end.start()]) if end else None
    return None if told is None else int(told[1])


def _of_older(result: str) -> int | None:
    """Return what is said in a result that is JSON, as it was up to 2025."""
    try:
        value = canonical.from_json(result.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    code = get_object(value, "metadata").get("exit_code") if isinstance(value, dict) else None
    return code if type(code) is int and abs(code) < 1 << 32 else None


NAME = "codex-v1"
_HEADS = (b'"session_meta"', b'"record_type"', b'"response_item"', b'"turn_context"')
_OLD_HEAD = (b'"instructions"', b'"git"')
_FRAGMENT = (b'"timestamp"', b'"payload"')
_FRAGMENT_DIGITS = 12
_LOOKED_AT_LINES, _LOOKED_AT_BYTES = 5, 256
"""A fragment may begin in the middle of a line."""
_FILE = re.compile(r"rollout-[^/\\]*\.jsonl")
_FROM_CODEX = re.compile(
    rf"(?:{'|'.join(map(re.escape, CODEX_PHRASES))}|<(?:{'|'.join(CODEX_TAGS)})\b)"
)
"""How texts in the user's name begin that Codex itself wrote."""
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cache_read_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}
"""What Codex counts, and how Harken calls it: both count the cached part in the input, too, and
thoughts in the output."""


def looks(path: str, head: bytes) -> bool:
    """Whether a file is a rollout, or a part of one, by its first lines; an empty one, by its name.

    A part may lack the header, and begin with any line, also in the middle of one.
    """
    lines = head.lstrip(b"\xef\xbb\xbf \r\n").split(b"\n", _LOOKED_AT_LINES)
    if not lines[0]:
        return _FILE.search(path) is not None
    is_old = b'"id"' in lines[0] and all(name in lines[0] for name in _OLD_HEAD)
    is_head = is_old or any(name in lines[0] for name in _HEADS)
    if is_head and lines[0].startswith(b"{"):
        return True
    return any(_is_part(line[:_LOOKED_AT_BYTES]) for line in lines[:_LOOKED_AT_LINES])


def _is_part(line: bytes) -> bool:
    """Whether a line is of a rollout, by its beginning: every file of any kind is asked."""
    if not line.startswith(b"{") or not all(name in line for name in _FRAGMENT):
        return False
    return any(name in line for name in (*_HEADS, b'"event_msg"', b'"compacted"'))


def steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Read a rollout. Raises FormatError where no line of it is of one."""
    rollout = _Rollout(reading)
    for line, record in read_records(source, reading):
        kind, payload = _opened(record)
        rollout.first = rollout.first or line.data
        if kind in ("response_item", "compacted"):
            reading.used += 1
        else:
            reading.keep(f"{kind}/{get_text(payload, 'type')}" if kind == "event_msg" else kind)
        rollout.is_one = rollout.is_one or kind in _KINDS
        match kind:
            case "session_meta":
                rollout.begin(payload, time_of(record.get("timestamp")))
            case "response_item":
                yield from rollout.take(payload, time_of(record.get("timestamp")), line.number)
            case "compacted":
                yield from rollout.compact(payload, time_of(record.get("timestamp")), line.number)
            case "turn_context":
                rollout.model = get_text(payload, "model") or rollout.model
            case "event_msg":
                yield from rollout.happen(payload)
    if not rollout.is_one:
        raise FormatError(NAME, "no line of it is one of a rollout")
    yield from rollout.seal()


_KINDS = frozenset({"session_meta", "response_item", "compacted", "turn_context", "event_msg"})


def _opened(record: Record) -> tuple[str, Record]:
    """Return the kind of a line and what is in it; old versions wrote items without a wrapper."""
    payload = record.get("payload")
    if isinstance(payload, dict):
        return get_text(record, "type"), payload
    if "record_type" in record:
        return "state", record
    kind = get_text(record, "type")
    if kind:
        return ("response_item" if kind in ITEMS else kind), record
    return ("session_meta" if "id" in record and "timestamp" in record else "unknown"), record


@dataclass(slots=True)
class _Rollout:
    """What a rollout said so far, and the step that its lines are in."""

    reading: ReadReport
    first: bytes = b""
    """The first record: it names a file that has no header."""
    is_one: bool = False
    model: str = ""
    instructions: ConversationEntry | None = None
    """What the client instructs the model with: the header says it, and no item."""
    agent: str = ""
    """Who it is, where another session spawned it."""
    parent: str | None = None
    turns: list[str | None] = field(default_factory=list)
    """The step before each prompt: where a rollback goes to."""
    prompts: RecentPrompts = field(default_factory=RecentPrompts)
    total: Record = field(default_factory=dict)
    """The tokens of all answers so far, which Codex says again and again."""
    line: int = 0
    entries: list[ConversationEntry] = field(default_factory=list)
    answer: list[Record] = field(default_factory=list)
    answer_time: str | None = None
    calls: set[str] = field(default_factory=set)
    """The ids of the calls in the answer."""
    usage: Counter[str] = field(default_factory=Counter)
    is_answered: bool = False
    """Whether the answer of this step has ended: what is said next is of another one."""
    compaction: str | None = None
    """The summary, where the step is a compaction."""

    def begin(self, meta: Record, time: str | None) -> None:
        """Read a header. The first is that of this session; a fork has that of its origin, too."""
        reading = self.reading
        if not reading.session_id and (self.entries or self.answer):
            self._name_fragment()
        if reading.session_id:
            return
        reading.session_id = get_text(meta, "id")
        reading.folder = get_text(meta, "cwd")
        reading.version = get_text(meta, "cli_version")
        spawned = get_object(get_object(get_object(meta, "source"), "subagent"), "thread_spawn")
        reading.parent = get_text(meta, "forked_from_id") or get_text(spawned, "parent_thread_id")
        if get_text(spawned, "parent_thread_id"):
            self.agent = reading.session_id
        told = get_text(get_object(meta, "base_instructions"), "text")
        if told:
            self.instructions = instructions(told, time)

    def take(self, item: Record, time: str | None, line: int) -> Iterator[ImportStep]:
        """Take an item that the model sees."""
        if is_answer(item):
            if self.is_answered:
                yield from self.seal()
            self._open(line)
            self._say(item, time or self.answer_time)
            return
        entry, is_prompt = _heard(item, time)
        if is_prompt or (entry.message.role != "tool" and (self.is_answered or self.answer)):
            yield from self.seal()
        self._open(line)
        self._close_answer()
        if is_prompt:
            self.turns.append(self.parent)
            self._ask(text_of(entry.message.content))
        self.is_answered = self.is_answered or entry.message.role == "tool"
        self.entries.append(entry)

    def compact(self, payload: Record, time: str | None, line: int) -> Iterator[ImportStep]:
        """Take a compaction: what it says replaces all that was before.

        The first versions did not say it: Codex itself then takes the last prompts and the summary.
        """
        yield from self.seal()
        self.compaction = get_text(payload, "message")
        self._open(line)
        if isinstance(payload.get("replacement_history"), list):
            self._replace(get_objects(payload, "replacement_history"), time)
        else:
            said_again = [(one, PROMPT) for one in self.prompts.latest()]
            for one, kind in [*said_again, (self.compaction or NO_SUMMARY, SYSTEM)]:
                self.entries.append(ConversationEntry(Message("user", one), time, {"kind": kind}))
        yield from self.seal()

    def happen(self, event: Record) -> Iterator[ImportStep]:
        """Take an event: most of them say for display what an item says, too."""
        match get_text(event, "type"):
            case "token_count":
                self._spend(get_object(event, "info"))
            case "thread_rolled_back":
                turns = min(get_count(event, "num_turns") or 0, len(self.turns))
                if turns:
                    yield from self.seal()
                    if self.parent is not None:
                        self.reading.branches.append((self.agent, self.parent))
                    self.parent = self.turns[-turns]
                    del self.turns[-turns:]
                    self.prompts.forget(turns)
            case "collab_agent_spawn_end":
                self._spawn(get_text(event, "new_thread_id"))
            case "item_completed" if get_text(get_object(event, "item"), "tool") == "spawn_agent":
                for agent in get_objects(get_object(event, "item"), "receiver_agents"):
                    self._spawn(get_text(agent, "thread_id"))

    def _spawn(self, agent: str) -> None:
        """Say where an agent began whose conversation is in a file of its own."""
        step = str(self.line) if self.entries or self.answer else self.parent
        if agent and step is not None:
            self.reading.spawned[agent] = step

    def seal(self) -> Iterator[ImportStep]:
        """End the step, if there is anything in it."""
        self._close_answer()
        if self.entries:
            self._tell_usage()
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

        It is no session: with the id of one it would be taken for all of it. The name is the same
        when the part grows, and is never the beginning of a session's id.
        """
        name = blake3(self.first).hexdigest()[:_FRAGMENT_DIGITS]
        self.reading.session_id = f"fragment-{name}"
        self.reading.notes.append("it has no header: it is a part of a session")

    def _open(self, line: int) -> None:
        """Begin a step at a line, unless one is open."""
        if self.entries or self.answer:
            return
        self.line = line
        if self.instructions and (self.parent is None or self.compaction is not None):
            self.entries.append(self.instructions)

    def _say(self, item: Record, time: str | None) -> None:
        """Add to the answer. Calls of one message have ids of their own: so each has its place."""
        id_ = call_id(item)
        if id_ in self.calls:
            self._close_answer()
        if id_ is not None:
            self.calls.add(id_)
        self.answer.append(item)
        self.answer_time = time

    def _close_answer(self) -> None:
        if self.answer:
            source: Record = {"model": self.model} if self.model else {}
            named = next(filter(None, (get_text(item, "id") for item in self.answer)), "")
            if named:
                source["id"] = named
            self.entries.append(
                ConversationEntry(said(self.answer), self.answer_time, source or None)
            )
            self.answer, self.answer_time, self.calls = [], None, set()

    def _ask(self, prompt: str) -> None:
        self.prompts.add(prompt)
        self.reading.title = self.reading.title or title_of(prompt)

    def _replace(self, history: list[Record], time: str | None) -> None:
        self.prompts = RecentPrompts()
        for item in history:
            if is_answer(item):
                self._say(item, time)
                continue
            self._close_answer()
            entry, is_prompt = _heard(item, time)
            if is_prompt:
                self.prompts.add(text_of(entry.message.content))
            self.entries.append(entry)

    def _spend(self, info: Record) -> None:
        """Count what an answer took: by how much the total, which is often repeated, has grown."""
        total, last = get_object(info, "total_token_usage"), get_object(info, "last_token_usage")
        if not total:
            return
        known, self.total = self.total, total
        grown = {
            name: (get_count(total, name) or 0) - (get_count(known, name) or 0) for name in _COUNTS
        }
        if not known or min(grown.values()) < 0:  # of a fork, or begun anew
            grown = {name: get_count(last, name) or 0 for name in _COUNTS}
        self.usage.update({_COUNTS[name]: tokens for name, tokens in grown.items() if tokens})
        self.is_answered = self.is_answered or bool(self.answer)

    def _tell_usage(self) -> None:
        """Say of the last answer what it took; of a step without one, what came before it."""
        if not self.usage:
            return
        roles = [entry.message.role for entry in self.entries]
        at = len(roles) - 1
        if "assistant" in roles:
            at -= roles[::-1].index("assistant")
        entry = self.entries[at]
        self.entries[at] = replace(entry, source={**(entry.source or {}), "usage": {**self.usage}})
        self.usage.clear()


def _heard(item: Record, time: str | None) -> tuple[ConversationEntry, bool]:
    """Return the entry of what no model said, and whether it is a prompt."""
    entry = heard(item, time)
    if entry.message.role == "tool":
        code = exit_code(text_of(entry.message.content))
        told = {} if code is None else {"exit_code": code}
        return replace(entry, source={**(entry.source or {}), **told} or None), False
    if entry.message.role != "user":
        return entry, False
    kind = PROMPT if _is_prompt(entry.message) else SYSTEM
    return replace(entry, source={"kind": kind, **(entry.source or {})}), kind == PROMPT


def _is_prompt(message: Message) -> bool:
    """Whether a person (or who spawned the agent) said it, and not Codex in the user's name."""
    content = message.content
    parts = [TextPart(content)] if isinstance(content, str) else content or []
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return not any(_FROM_CODEX.match(one.lstrip()[:40].lower()) for one in texts)


NATIVE = RuntimeFormat(
    name=NAME, runtime="codex", looks=looks, steps=steps, sent=build_resume_request, writes=writes
)
FORMAT = format_of(NATIVE, "application/jsonl")
