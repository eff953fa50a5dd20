"""`KnownRequests`: the requests that transcripts record, for the answers of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Self

import msgspec

from harken.formats.base import ConversationEntry
from harken.formats.runtimes.sent_requests import SentRequest, SentRequests


class KnownRequests(msgspec.Struct, frozen=True):
    """Requests by the id of their response, and the hashes of the messages of commits."""

    by_response: Mapping[str, SentRequest] = msgspec.field(default_factory=dict)
    hashes: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, transcripts: Iterable[SentRequests], parts: Iterable[Sequence[ConversationEntry]]
    ) -> Self:
        """Collect the requests of transcripts. `parts` are the entries of each commit."""
        requests = [part for part in transcripts if part.by_response]
        by_response = {
            id_: request for part in requests for id_, request in part.by_response.items()
        }
        commits = list(parts) if requests else []
        hashes = (part.hash_messages(entries) for part in requests for entries in commits)
        return cls(by_response, frozenset(chain.from_iterable(hashes)))

    def find(self, response_id: str | None) -> SentRequest | None:
        """Return the request of a response, or None if no transcript has it."""
        return self.by_response.get(response_id or "")

    def has_only_known(self, request: SentRequest, count: int) -> bool:
        """Whether all messages of a request are among the `count` messages of its context."""
        return len(request.message_hashes) <= count and self.hashes.issuperset(
            request.message_hashes
        )
