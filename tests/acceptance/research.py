"""Research data read plainly, from the raw JSON and text, for comparison with what was imported."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

Item: TypeAlias = tuple[Any, ...]
_CHATDEV_RECORD = re.compile(r"(?m)^(?=\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO\] )")
_CHATDEV_SPEECH = re.compile(
    r"\[[^]]*\] (?P<role>[A-Z][\w ]+): (?:\*\*(?:\[Start Chat\]|.+? on : .+?, turn \d+)\*\*"
    r"(?P<text>.*)|(?P<plain><INFO>.*))",
    re.DOTALL,
)


def _who_and_when(data: bytes) -> list[Item]:
    history = json.loads(data)["history"]
    return [
        ("user" if message["role"] == "human" else "assistant", message["content"])
        for message in history
    ]


def _inspect(data: bytes) -> list[Item]:
    """Return the conversation of the first sample."""
    sample = json.loads(data)["samples"][0]
    texts = sample.get("attachments", {})
    items: list[Item] = []
    for message in sample["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "text":
                text = block["text"]
                items.append((message["role"], texts.get(text.removeprefix("attachment://"), text)))
            else:
                items.append((block["type"],))
    return items


def _swe_agent(data: bytes) -> list[Item]:
    document = json.loads(data)
    items: list[Item] = []
    for message in document["history"]:
        if message["role"] == "tool":
            items.append(("result", message["tool_call_ids"][0], message["content"]))
            continue
        items.append((message["role"], message["content"]))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = json.loads(function["arguments"])
            items.append(("call", call["id"], function["name"], arguments))
    answers = sum(message["role"] == "assistant" for message in document["history"])
    items += [("assistant", step["response"]) for step in document["trajectory"][answers:]]
    return items


def _mini_swe_agent(data: bytes) -> list[Item]:
    return [(message["role"], message["content"]) for message in json.loads(data)]


def _chatdev(data: bytes) -> list[Item]:
    items: list[Item] = []
    for record in _CHATDEV_RECORD.split(data.decode()):
        speech = _CHATDEV_SPEECH.match(record)
        if speech and speech["role"] != "System":
            text = (speech["text"] or speech["plain"]).strip()
            if text.startswith("["):
                text = text[text.index("]\n\n") + 3 :].strip()
            items.append(("assistant", text))
    return items


READERS = {
    "who-and-when-v1": _who_and_when,
    "inspect-ai-v2": _inspect,
    "swe-agent-v1": _swe_agent,
    "mini-swe-agent-v1": _mini_swe_agent,
    "chatdev-v1": _chatdev,
}
"""Format -> its plain reader."""


def count_records(format: str, data: bytes) -> int:
    """Return the number of records of a file, of which its report counts each."""
    match format:
        case "who-and-when-v1":
            return len(json.loads(data)["history"])
        case "inspect-ai-v2":
            samples = json.loads(data)["samples"]
            events = [
                len(sample.get("events") or sample.get("transcript", {}).get("events", []))
                for sample in samples
            ]
            return sum(len(sample["messages"]) for sample in samples) + sum(events)
        case "swe-agent-v1":
            return len(json.loads(data)["history"]) + len(json.loads(data)["trajectory"])
        case "mini-swe-agent-v1":
            return len(json.loads(data))
        case "chatdev-v1":
            return len([part for part in _CHATDEV_RECORD.split(data.decode()) if part])
    return data.count(b"\n") + (data[-1:] not in (b"\n", b""))
