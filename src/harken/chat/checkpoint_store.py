"""The store to which a chat commits, or the error that prevents it.

A store that is corrupted, locked or too new does not stop a chat: the log is authoritative, and a
resume commits the pending events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from harken.agents.checkpointer import Checkpointer
from harken.config.home import Home
from harken.context.checkpoint import CommitIdentity
from harken.context.materialize import make_resolver
from harken.context.socket_server import ContextSocketServer
from harken.core.events import ContextLoaded
from harken.core.messages import ChatMessage
from harken.errors import ConfigError, StoreError
from harken.store.base import Store

LOCK_TIMEOUT_S = 3.0
"""The time that a chat waits for the store's lock. The chat is blocked meanwhile."""


class CheckpointStore(msgspec.Struct, frozen=True):
    """A store, or the error that prevents its use."""

    store: Store | None = None
    error: StoreError | None = None

    @staticmethod
    def open(open_store: Callable[[], Store]) -> CheckpointStore:
        """Open a store for a chat, or store the error of opening it."""
        try:
            return CheckpointStore(open_store())
        except StoreError as error:
            return CheckpointStore(error=error)

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the user about the store."""
        return (f"Commits are disabled: {self.error}",) if self.error is not None else ()

    def get(self) -> Store:
        """Return the store. Raises StoreError if it cannot be used."""
        if self.store is None:
            raise self.error or ConfigError("this chat has no store")
        return self.store

    def resolve(self, event: ContextLoaded) -> Sequence[ChatMessage]:
        """Return the messages of a commit that an agent started from. Raises as `get`."""
        return make_resolver(self.get())(event)

    def checkpoints(self, home: Home, identity: CommitIdentity) -> Checkpointer | None:
        """Return the checkpointer of the store. Return None if the store cannot be used."""
        if self.store is None:
            return None
        return Checkpointer(
            store=self.store,
            identity=identity,
            sockets=ContextSocketServer(home.run_folder),
        )

    def close(self) -> None:
        """Close the store. A second call does nothing."""
        if self.store is not None:
            self.store.close()
