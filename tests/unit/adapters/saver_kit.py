"""Checkpoints as LangGraph writes them, for the tests of the savers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint

from harken.adapters.langgraph import HarkenSaver


def config_of(thread: str = "t", checkpoint: str = "", namespace: str = "") -> RunnableConfig:
    """Return the configuration that names a thread, and a checkpoint if it has an id."""
    members = {"thread_id": thread, "checkpoint_ns": namespace}
    if checkpoint:
        members["checkpoint_id"] = checkpoint
    return {"configurable": members}


def build_checkpoint(version: int, **values: Any) -> Checkpoint:
    """Return a checkpoint in which all channels have this version."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = dict.fromkeys(values, version)
    return checkpoint


def put(
    saver: HarkenSaver,
    config: RunnableConfig,
    version: int,
    metadata: dict[str, Any] | None = None,
    **values: Any,
) -> RunnableConfig:
    """Write a checkpoint after another one, with all channels changed. Return its configuration."""
    checkpoint = build_checkpoint(version, **values)
    fields: Any = {"source": "loop", "step": version, "parents": {}} | (metadata or {})
    return saver.put(config, checkpoint, fields, cast(Any, checkpoint["channel_versions"]))


def grow(
    saver: HarkenSaver, steps: int, *, thread: str = "t", start: RunnableConfig | None = None
) -> list[RunnableConfig]:
    """Write checkpoints whose list of messages grows by two with each step."""
    config = start or config_of(thread)
    messages = values_of(saver, config).get("messages", []) if start else []
    configs: list[RunnableConfig] = []
    for step in range(steps):
        messages = [*messages, *speak(len(messages))]
        config = put(saver, config, len(messages) + step, messages=messages)
        configs.append(config)
    return configs


def speak(number: int) -> list[dict[str, str]]:
    """Return a question and an answer, as dicts."""
    return [
        {"role": "user", "content": f"question {number}"},
        {"role": "assistant", "content": f"answer {number}"},
    ]


def values_of(saver: HarkenSaver, config: RunnableConfig) -> dict[str, Any]:
    """Return the values of the channels at a checkpoint."""
    checkpoint_tuple = saver.get_tuple(config)
    assert checkpoint_tuple is not None
    return checkpoint_tuple.checkpoint["channel_values"]


def ids_of(saver: HarkenSaver, config: RunnableConfig) -> Sequence[str]:
    """Return the ids of the checkpoints that `list` yields."""
    return [item.config["configurable"]["checkpoint_id"] for item in saver.list(config)]
