"""Checkpoint savers for LangGraph over Harken's store.

    with HarkenSaver(Path.home() / ".harken") as saver:
        graph = builder.compile(checkpointer=saver)

A thread is a session: `harken sessions` lists it, and `harken view langgraph:THREAD` shows it.

Source: docs/how-to/langgraph.md; docs/design/020-adapters.md.
"""

from __future__ import annotations

try:
    import langgraph.checkpoint.base as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "harken.adapters.langgraph needs LangGraph: install it with `pip install harken[langgraph]`"
    ) from error

from harken.adapters.langgraph.async_saver import AsyncHarkenSaver
from harken.adapters.langgraph.saver import HarkenSaver

__all__ = ["AsyncHarkenSaver", "HarkenSaver"]
