"""Sessions with the statistics of real transcripts, generated from a seed.

The medians and the shares are those of 201 sessions of ten runtimes: a session has 13 commits in
the median and 103 at the 90th percentile, one of two responses calls tools, a text has 140
characters in the median and a long tail. The number of commits here has a larger mean, that of
people who work with agents all day, and texts are shortened by `TEXT_SCALE`: what is measured
follows the number of names, not the length of texts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random
from uuid import UUID

import msgspec

from harken.capture.files.report import MAIN_AGENT, ConversationTip, Report
from harken.core import structs
from harken.core.clock import format_rfc3339
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    encode_delta,
    encode_entry,
)
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.store.base import WriteBatch

START_US = 1_735_689_600_000_000
"""The time of the first session: 2025-01-01."""
SESSION_GAP_US = 300_000_000
"""Between the beginnings of two sessions: 100,000 sessions are one year of a team."""
MESSAGE_GAP_US = 4_000_000
TEXT_SCALE = 0.1
RUNTIMES = ("claude", "codex", "copilot", "pi", "gemini", "opencode")
RUNTIME_WEIGHTS = (79, 14, 16, 9, 7, 5)
TOOLS = ("exec_command", "Bash", "Read", "Edit", "write_stdin", "TodoWrite", "Grep", "apply_patch")
TOOL_WEIGHTS = (1212, 1044, 437, 385, 159, 129, 94, 87)
PROJECTS = 200
SUBAGENT_SHARE = 0.2
"""The share of sessions in which a second agent works."""
REPEATED_TEXTS, REPEATED_SHARE = 500, 0.1
"""Prompts and results that occur in many sessions, such as the instructions of a project, and
their share. Short texts are not drawn: they would be equal by chance in all sessions."""
MIN_WORDS = 6
WORDS = 50_000
"""The number of different words. Their frequencies fall with their rank, as in a language."""


class Shape(msgspec.Struct, frozen=True):
    """The size of the sessions of a home."""

    commits_median: float = 60.0
    """Of a log-normal distribution: the mean is 99 commits, the largest of 100,000 has 5,000."""
    commits_sigma: float = 1.0
    messages_per_commit: int = 10
    sessions_per_write: int = 1


SHAPES = {
    "full": Shape(),
    "short": Shape(1.0, 0.0, 2, 50),
    "call": Shape(1.0, 0.0, 4, 50),
}
"""Sessions as people have them; such of one question and its answer, which are cheap enough to
write as many as a team has in a year; and such with one tool call, too."""


class GeneratedSession(msgspec.Struct, frozen=True):
    """The batch that writes a session, and its newest commit."""

    batch: WriteBatch
    tip: CommitId
    report: Report
    """The report of the file from which it could have been imported."""
    end_us: int
    commits: int
    messages: int


def generate_session(number: int, shape: Shape = SHAPES["full"]) -> GeneratedSession:
    """Return a session. Equal numbers and shapes give equal sessions."""
    return _Generator(number, shape).generate()


def merge_batches(batches: Iterable[WriteBatch]) -> WriteBatch:
    """Return the batch that writes what all of these write."""
    objects: dict[Hash, bytes] = {}
    deltas: dict[ArtifactRef, Sequence[DeltaEntry]] = {}
    commits: list[tuple[Commit, CommitNotes]] = []
    for batch in batches:
        objects |= batch.objects
        deltas |= batch.deltas
        commits += batch.commits
    return WriteBatch(objects=objects, deltas=deltas, commits=commits)


def label_of(number: int) -> str:
    """Return the label that the newest commit of a session has."""
    return f"reviewed-{number}"


class _Generator:
    """Builds the commits of one session."""

    def __init__(self, number: int, shape: Shape) -> None:
        self._shape, self._label = shape, label_of(number)
        self._random = Random(number)
        [runtime] = self._random.choices(RUNTIMES, RUNTIME_WEIGHTS)
        native = UUID(int=self._random.getrandbits(128), version=4)
        self._session = f"{runtime}:{native}"
        self._time = START_US + number * SESSION_GAP_US
        self._objects: dict[Hash, bytes] = {}
        self._deltas: dict[ArtifactRef, list[DeltaEntry]] = {}
        self._commits: list[tuple[Commit, CommitNotes]] = []
        self._messages = 0

    def generate(self) -> GeneratedSession:
        """Build the agents, one after the other."""
        mean = math.log(self._shape.commits_median)
        commits = max(1, round(self._random.lognormvariate(mean, self._shape.commits_sigma)))
        has_subagent = commits > 1 and self._random.random() < SUBAGENT_SHARE
        tip = self._write_agent("", commits - commits // 4 if has_subagent else commits)
        commit, notes = self._commits[-1]
        self._commits[-1] = (commit, structs.replace(notes, labels=(self._label,)))
        if has_subagent:
            self._write_agent("helper", commits // 4)
        runtime, _, native = self._session.partition(":")
        project = self._random.randrange(PROJECTS)
        report = Report(
            source=f"/home/team/.{runtime}/{native}.jsonl",
            format=f"{runtime}-v1",
            runtime=runtime,
            tips=(ConversationTip(MAIN_AGENT, tip),),
            lines=self._messages,
            session=native,
            title=_join_words(self._random, MIN_WORDS),
            folder=f"/home/team/project-{project}",
            ended=format_rfc3339(self._time),
            commits=len(self._commits),
        )
        return GeneratedSession(
            batch=WriteBatch(objects=self._objects, deltas=self._deltas, commits=self._commits),
            tip=tip,
            report=report,
            end_us=self._time,
            commits=len(self._commits),
            messages=self._messages,
        )

    def _write_agent(self, agent: str, commits: int) -> CommitId:
        principal = f"team/{agent}" if agent else "team"
        parent: CommitId | None = None
        for _ in range(max(1, commits)):
            entries = [self._add(message) for message in self._generate_turn()]
            name, _ = encode_delta(entries)
            self._deltas[name] = entries
            commit = Commit(
                parent=parent,
                artifact=name,
                principal=principal,
                session_id=self._session,
                checkpoint="import",
                message_count=len(entries),
                token_count=40 * len(entries),
                created_at=format_rfc3339(self._time),
            )
            parent = commit.id
            self._commits.append((commit, CommitNotes(summary=self._write_text(40), derived=True)))
        assert parent is not None
        return parent

    def _add(self, message: Message) -> DeltaEntry:
        self._time += MESSAGE_GAP_US
        entry, needed = encode_entry(message, time=format_rfc3339(self._time))
        self._objects |= needed
        self._messages += 1
        return entry

    def _generate_turn(self) -> Iterator[Message]:
        """Yield a prompt, then responses with calls and their results, and an answer."""
        yield Message("user", self._write_text(94))
        for index in range((self._shape.messages_per_commit - 2) // 2):
            id_ = f"call_{self._time}_{index}"
            [tool] = self._random.choices(TOOLS, TOOL_WEIGHTS)
            arguments = json.dumps({"path": self._write_text(30)})
            call = ToolCall(id_, FunctionCall(tool, arguments))
            yield Message("assistant", self._write_text(137), [call])
            yield Message("tool", self._write_text(578), tool_call_id=id_)
        yield Message("assistant", self._write_text(400))

    def _write_text(self, median_chars: int) -> str:
        if self._random.random() < REPEATED_SHARE:
            return _repeated_text(self._random.randrange(REPEATED_TEXTS))
        chars = self._random.lognormvariate(math.log(median_chars * TEXT_SCALE), 1.0)
        return _join_words(self._random, max(MIN_WORDS, round(chars / 6)))


def list_words() -> list[str]:
    """Return the words of all texts, the most frequent first."""
    return _vocabulary()[0]


def _join_words(random: Random, count: int) -> str:
    words, weights = _vocabulary()
    return " ".join(random.choices(words, cum_weights=weights, k=count))


@lru_cache(maxsize=1)
def _vocabulary() -> tuple[list[str], list[float]]:
    random = Random(0)
    letters = "etaoinshrdlucmfwyp"
    words = [
        "".join(random.choices(letters, k=2 + (rank > 100) + (rank > 1000) + random.randrange(5)))
        for rank in range(WORDS)
    ]
    return words, list(accumulate(1 / (rank + 2.7) for rank in range(WORDS)))


@lru_cache(maxsize=REPEATED_TEXTS)
def _repeated_text(number: int) -> str:
    return _join_words(Random(-1 - number), 30)
