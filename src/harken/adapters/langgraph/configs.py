"""The configurations of LangGraph: which thread, namespace and checkpoint they name."""

from __future__ import annotations

from langchain_core.runnables import RunnableConfig

from harken.adapters.head_expectations import ThreadKey


def thread_key(config: RunnableConfig) -> ThreadKey:
    """Return the thread and the namespace that a configuration names. Raises ValueError."""
    members = config.get("configurable") or {}
    if "thread_id" not in members:
        raise ValueError(
            "the configuration has no thread_id: pass {'configurable': {'thread_id':}}"
        )
    return str(members["thread_id"]), str(members.get("checkpoint_ns") or "")


def build_config(
    key: ThreadKey, checkpoint_id: str, config: RunnableConfig | None = None
) -> RunnableConfig:
    """Return the configuration of a checkpoint.

    config: that of the caller, whose thread id may be of another type than text.
    """
    thread_id = key[0] if config is None else config["configurable"]["thread_id"]
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": key[1],
            "checkpoint_id": checkpoint_id,
        }
    }
