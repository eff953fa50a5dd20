"""`JournaledModel`: notes each complete answer of a model, and repeats the noted ones.

So an agent that is run again after its worker has died does not pay again for its first calls.
Equal requests get the noted answers in their order. Errors and partial answers are not noted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import msgspec

from harken.core.messages import Message
from harken.core.secrets.redaction import find_kind_in_json
from harken.core.stream import Chunk, Finish, StreamAccumulator, iter_chunks
from harken.executors.result_journal import ResultJournal
from harken.llm.base import Model, ModelRequest


class _NotedAnswer(msgspec.Struct, frozen=True):
    message: Message
    finish: Finish


class JournaledModel:
    """A model with a journal of its answers, for one run."""

    def __init__(self, model: Model, journal: ResultJournal, *, redacts: bool = False) -> None:
        """Use the journal of this run. The name is that of the model.

        redacts: whether no credential may be stored. An answer with one is not noted.
        """
        self.name = model.name
        self.context_window: int | None = getattr(model, "context_window", None)
        self._model, self._journal, self._redacts = model, journal, redacts
        self._counts: Counter[str] = Counter()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream the noted answer, else that of the model. Raises ModelError."""
        number = self._counts[request.hash]
        self._counts[request.hash] += 1
        key = f"{self.name}\n{request.hash}\n{number}"
        noted = self._journal.get(key)
        if noted is not None:
            answer = msgspec.json.decode(noted, type=_NotedAnswer)
            for chunk in iter_chunks(answer.message):
                yield chunk
            yield answer.finish
            return
        draft = StreamAccumulator()
        async for chunk in self._model.stream(request):
            draft.add(chunk)
            if draft.finish is not None:
                self._note(key, draft.message(), draft.finish)
            yield chunk

    def _note(self, key: str, message: Message, finish: Finish) -> None:
        try:
            content = msgspec.json.encode(_NotedAnswer(message, finish))
        except UnicodeEncodeError:  # Lone surrogates: such an answer is asked for again.
            return
        if not self._redacts or not find_kind_in_json(content):
            self._journal.put(key, content)
