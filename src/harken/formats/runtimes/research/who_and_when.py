"""Failures of multi-agent systems in the data set Who&When: a JSON document per conversation.

Each document has the history of a group chat, and the agent and the step of the decisive mistake,
as annotators labeled them. A document of kind `Algorithm-Generated` names the speaker of each
message, and has the system prompts of the agents; one of kind `Hand-Crafted` has the speaker in the
role, with its addressee.

Source: docs/formats/who-and-when.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harken.errors import FormatError
from harken.formats.json_records import (
    Record,
    get_object,
    get_text,
    truncate_title,
)
from harken.formats.runtimes.base import ImportStep, ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.evaluation import Label, build_score, limit_text
from harken.formats.runtimes.json_lines import read_document
from harken.formats.runtimes.research.documents import digest_id
from harken.formats.runtimes.research.group_chat import Speech, read_group_chat

NAME = "who-and-when-v1"
_BEGINNING_PATTERN = re.compile(
    rb'\s*\{\s*"(?:is_correct(?:ed)?|question|question_ID|level|ground_truth|mistake_\w+|history)"\s*:'
)
_HISTORY_PATTERN = re.compile(rb'"history"\s*:\s*\[\s*\{\s*"(?:content|role|name)"\s*:')
_LABELS_PATTERN = re.compile(rb'"mistake_(?:agent|step)"\s*:')
_ROLE_PATTERN = re.compile(r"(?P<speaker>.*\S)\s+\((?:-> (?P<addressee>.+)|(?P<aside>[^()]+))\)")
_PERSON = "human"


def is_session_file(path: str, beginning: bytes) -> bool:
    """Whether a file is such a document. In a long one, the labels are behind the beginning."""
    del path
    if not _BEGINNING_PATTERN.match(beginning) or not _HISTORY_PATTERN.search(beginning):
        return False
    is_complete = beginning.rstrip().endswith(b"}")
    return bool(_LABELS_PATTERN.search(beginning)) or not is_complete


def iter_steps(source: SessionFile, reading: ReadReport) -> Iterator[ImportStep]:
    """Yield the steps of the chat and of its agents. Raises FormatError."""
    document = read_document(source, reading, NAME)
    history = document.get("history")
    if not isinstance(history, list) or "mistake_agent" not in document:
        raise FormatError(NAME, "it has no history or no mistake_agent")
    question_id = get_text(document, "question_ID")
    # Both kinds of documents, and further runs, may have the same question.
    digest = digest_id(history)
    reading.session_id = f"{question_id}-{digest}" if question_id else digest
    reading.title = truncate_title(get_text(document, "question"))
    _report_result(document, question_id, reading)
    reading.lines = len(history)
    speeches: list[Speech] = []
    positions: dict[int, int] = {}
    for number, message in enumerate(history):
        speech = _parse_speech(message)
        if speech is None:
            reading.count_uninterpreted("message without a role and text")
        else:
            positions[number] = len(speeches)
            speeches.append(speech)
    reading.used_lines = len(speeches)
    label = _parse_label(document)
    mistake = _parse_step(document.get("mistake_step"))
    labels = {positions[mistake]: label} if mistake in positions else {}
    prompts = get_object(document, "system_prompt")
    yield from read_group_chat(
        speeches, {(name, 0): get_text(prompts, name) for name in prompts}, labels, reading
    )
    if label not in labels.values():
        reading.labels.append(label)


def _report_result(document: Record, question_id: str, reading: ReadReport) -> None:
    """Report whether the answer was correct. The name of this member differs between the kinds."""
    is_correct = document.get("is_correct", document.get("is_corrected"))
    if not isinstance(is_correct, bool):
        return
    reading.outcome = "correct" if is_correct else "incorrect"
    metadata = {name: document[name] for name in ("level", "ground_truth") if name in document}
    reading.scores.append(
        build_score("is_correct", is_correct, sample=question_id, metadata=metadata)
    )


def _parse_speech(message: object) -> Speech | None:
    """Parse a message of either kind. Return None if it has no role or no text."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        return None
    role, name = get_text(message, "role"), get_text(message, "name")
    text = get_text(message, "content")
    if name:
        return Speech(text=text, speaker=name, source={"role": role})
    if not role:
        return None
    if role == _PERSON:
        return Speech(text=text, source={"role": role})
    parsed = _ROLE_PATTERN.fullmatch(role)
    if parsed is None:
        return Speech(text=text, speaker=role, source={"role": role})
    hearers = [parsed["addressee"]] if parsed["addressee"] else []
    return Speech(text=text, speaker=parsed["speaker"], hearers=hearers, source={"role": role})


def _parse_label(document: Record) -> Label:
    step = document.get("mistake_step")
    return Label(
        name="mistake",
        value="" if step is None else limit_text(step),
        agent=limit_text(document.get("mistake_agent")),
        explanation=limit_text(document.get("mistake_reason")),
    )


def _parse_step(value: object) -> int:
    """Return the number of the step, from 0, or -1 for a value that is none."""
    try:
        return int(value) if isinstance(value, str | int) else -1
    except ValueError:
        return -1


NATIVE = RuntimeFormat(
    name=NAME,
    runtime="whowhen",
    is_session_file=is_session_file,
    steps=iter_steps,
    copies_histories=False,
)
