"""A history with several named agents: the chat itself, and the perspective of each agent.

The main conversation is the chat: each message once, in the order of the file. Each speaker is an
agent, whose own messages are answers, and to whom those that it heard are inputs. A message counts
where it was spoken, so the others are marked as repeats.

The files do not say who heard a message. The reader of a format derives it, by a rule that its
document states.

Source: docs/design/021-research-data.md, "A group chat".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from harken.core.messages import Message
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ImportStep, ReadReport
from harken.formats.runtimes.evaluation import Label
from harken.formats.runtimes.steps import INSTRUCTIONS, PROMPT, REPEATS, SYSTEM, StepBuilder

MAX_AGENTS = 200
"""The maximum number of agents. Each has a copy of what it heard."""


class Speech(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a group chat."""

    text: str
    speaker: str = ""
    """The name of the agent that spoke it. Empty for a person."""
    hearers: Collection[str] | None = None
    """The names of the agents that heard it. None for all."""
    time: str | None = None
    source: dict[str, Any] = {}
    """Native data of the message, and its usage."""
    scene: int = 0
    """The number of its dialog. The context of an agent begins anew with each."""
    is_scripted: bool = False
    """Whether the program wrote it in the agent's name."""

    @property
    def kind(self) -> str:
        """The kind of its entry, if an agent spoke it."""
        return "client" if self.is_scripted else "response"

    def is_heard_by(self, agent: str) -> bool:
        """Whether an agent that did not speak it heard it."""
        return self.hearers is None or agent in self.hearers


def read_group_chat(
    speeches: Sequence[Speech],
    prompts: Mapping[tuple[str, int], str],
    labels: Mapping[int, Label],
    reading: ReadReport,
) -> Iterator[ImportStep]:
    """Yield the steps of the chat, and then those of each agent.

    prompts: agent and scene -> its system prompt. labels: position of a speech -> its label, which
    is reported with the step of the message.
    """
    chat = StepBuilder(reading)
    steps: list[str | None] = []
    for position, speech in enumerate(speeches):
        yield from chat.add(str(position), chat.head, [_chat_entry(position, speech)])
        steps.append(chat.current)
        if position in labels and not speech.speaker:
            _report_label(labels[position], chat, reading)
    yield from chat.end()
    names = [name for name in dict.fromkeys(speech.speaker for speech in speeches) if name]
    names += [name for name in dict.fromkeys(name for name, _ in prompts) if name not in names]
    if len(names) > MAX_AGENTS:
        reading.notes.append(f"only {MAX_AGENTS} of its {len(names)} agents are read as agents")
    for name in names[:MAX_AGENTS]:
        agent = StepBuilder(reading, agent=name, numbers=chat.numbers)
        own_prompts = {scene: text for (speaker, scene), text in prompts.items() if speaker == name}
        yield from _read_perspective(agent, speeches, steps, own_prompts, labels)


def _chat_entry(position: int, speech: Speech) -> ConversationEntry:
    """Return a message as the main conversation has it."""
    if not speech.speaker:
        source = {**speech.source, "kind": PROMPT, "position": position}
        return ConversationEntry(Message("user", speech.text), speech.time, source)
    message = Message("assistant", speech.text, name=speech.speaker)
    source = {"kind": speech.kind, "position": position, REPEATS: True}
    return ConversationEntry(message, speech.time, source)


def _read_perspective(
    agent: StepBuilder,
    speeches: Sequence[Speech],
    steps: Sequence[str | None],
    prompts: Mapping[int, str],
    labels: Mapping[int, Label],
) -> Iterator[ImportStep]:
    """Yield the steps of an agent. It begins where the chat has the first message that it has.

    prompts: scene -> its system prompt.
    """
    scene: int | None = None
    for position, speech in enumerate(speeches):
        is_own = speech.speaker == agent.agent
        if not is_own and not speech.is_heard_by(agent.agent):
            continue
        prompt_entries = _prompt_entries(
            prompts, speech.scene, speech.time, is_first=agent.head is None
        )
        node = f"{agent.agent} {position}"
        if agent.head is None:
            agent.origin = steps[position]
            yield from agent.add(f"{node} prompt", None, prompt_entries)
        elif scene != speech.scene:
            yield from agent.replace(f"{node} prompt", agent.head, prompt_entries)
        scene = speech.scene
        entry = _agent_entry(position, speech, is_own=is_own)
        yield from agent.add(node, agent.head, [entry])
        if is_own and position in labels:
            _report_label(labels[position], agent, agent.reading)
    if agent.head is None and steps:
        agent.origin = steps[0]
        yield from agent.add(agent.agent, None, _prompt_entries(prompts, min(prompts, default=0)))
    yield from agent.end()


def _prompt_entries(
    prompts: Mapping[int, str], scene: int, time: str | None = None, *, is_first: bool = True
) -> list[ConversationEntry]:
    """Return the system prompt of a scene as the beginning of a context."""
    text = prompts.get(scene)
    # Agents may have equal prompts. That of a further scene repeats that of an earlier one.
    source = {"kind": INSTRUCTIONS, **({REPEATS: False} if is_first else {})}
    return [ConversationEntry(Message("system", text), time, source)] if text else []


def _agent_entry(position: int, speech: Speech, *, is_own: bool) -> ConversationEntry:
    """Return a message as an agent has it."""
    if is_own:
        source = {"kind": speech.kind, **speech.source, "position": position, REPEATS: False}
        message = Message("assistant", speech.text, name=speech.speaker)
    else:
        source = {"kind": SYSTEM, "position": position, REPEATS: True}
        message = Message("user", speech.text, name=speech.speaker or None)
    return ConversationEntry(message, speech.time, source)


def _report_label(label: Label, builder: StepBuilder, reading: ReadReport) -> None:
    reading.labels.append(
        msgspec.structs.replace(label, step=builder.current or "", position=builder.last_position)
    )
