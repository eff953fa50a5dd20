"""Summaries by workers: they call the model, and this process reads and writes the store.

An item is the excerpt of a commit, from which credentials were removed. Workers load the model by
its name with their own keys. A worker notes each answer in a journal at once, so an answer that was
paid for survives the death of the worker and of this process; its note is removed when the summary
is stored.

Source: docs/design/025-batch-work.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import msgspec

from harken.context.summaries.summarize import (
    CONTENT_ERRORS,
    FATAL_KINDS,
    BoundedTranscript,
    RateLimiter,
    SummaryAnswer,
    SummaryOptions,
    SummaryResult,
    ask_for_summary,
    build_summary_request,
    read_excerpt,
    store_summary,
)
from harken.core.commits import CommitId
from harken.errors import ConfigError, Failure, ModelError
from harken.executors.base import AsyncFunction, ItemFailure
from harken.executors.executor import Executor
from harken.executors.result_journal import ResultJournal
from harken.llm.base import Model
from harken.store.base import Store, StoredCommit


class SummaryItem(msgspec.Struct, frozen=True):
    """The input of one model call."""

    ctx: CommitId
    text: str


class FailedCall(msgspec.Struct, frozen=True, tag=True):
    """The error of a model call: an exception of any class cannot be pickled reliably."""

    text: str
    kind: Failure = "failed"


class BatchSummarizer(msgspec.Struct, frozen=True, kw_only=True):
    """Summarizes commits with a model that workers call."""

    model: str
    """The name of the model."""
    load_model: Callable[[], Model]
    """Loads the model in a worker. It can be pickled, and contains no credential."""
    journal: Path
    """The folder of answers that are not stored yet."""
    manner: SummaryOptions = SummaryOptions()

    def run(
        self,
        executor: Executor,
        store: Store,
        commits: Sequence[StoredCommit],
        on_result: Callable[[SummaryResult], None],
    ) -> None:
        """Summarize commits, store each summary, and report each result as it is ready.

        Raises as `summarize`, and ExecutorFailed.
        """
        by_id = {commit.id: commit for commit in commits}
        redacted: dict[CommitId, int] = {}
        journal = ResultJournal(self.journal)

        def read_items() -> Iterator[SummaryItem]:
            for commit in commits:
                excerpt = _read(store, commit, self.manner)
                if isinstance(excerpt, SummaryResult):
                    on_result(excerpt)
                else:
                    redacted[commit.id] = excerpt.redacted
                    yield SummaryItem(commit.id, excerpt.text)

        function = AsyncFunction(
            _PrepareCalls(self, max(1, executor.jobs)), self.manner.max_concurrent
        )
        results = executor.map(
            function,
            read_items(),
            size=lambda item: len(item.text),
            max_items=max(1, ceil(len(commits) / executor.jobs)),
            max_ahead=2 * executor.jobs,  # Summaries are stored while others are written.
            ordered=False,
        )
        for item, result in results:
            answer = _check_answer(result)
            if isinstance(answer, FailedCall):
                on_result(SummaryResult(ctx=item.ctx, failure=answer.text))
                continue
            on_result(self._store(store, by_id[item.ctx], answer, redacted[item.ctx]))
            journal.discard(self.key(item))
        journal.close()

    def key(self, item: SummaryItem) -> str:
        """Return the name of an answer: the hash of its request, and the model."""
        return f"{self.model}\n{build_summary_request(item.ctx, item.text, self.manner).hash}"

    def _store(
        self, store: Store, commit: StoredCommit, answer: SummaryAnswer, redacted: int
    ) -> SummaryResult:
        try:
            return store_summary(store, commit, self.model, answer, redacted=redacted)
        except CONTENT_ERRORS as error:
            return SummaryResult(ctx=commit.id, failure=str(error))


class _PrepareCalls(msgspec.Struct, frozen=True):
    """Prepares the calls of a batch in its worker."""

    summarizer: BatchSummarizer
    workers: int

    @contextmanager
    def __call__(self) -> Iterator[Callable[[SummaryItem], Awaitable[Any]]]:
        """Load the model, and yield the function that answers an item."""
        summarizer = self.summarizer
        model, manner = summarizer.load_model(), summarizer.manner
        pace = RateLimiter.share(manner.per_minute, self.workers)
        journal = ResultJournal(summarizer.journal)

        async def answer(item: SummaryItem) -> SummaryAnswer | FailedCall:
            key = summarizer.key(item)
            noted = journal.get(key)
            if noted is not None:
                return msgspec.json.decode(noted, type=SummaryAnswer)
            await pace.turn()
            try:
                new = await ask_for_summary(model, item.ctx, item.text, manner)
            except ModelError as error:
                return FailedCall(str(error), error.kind)
            journal.put(key, msgspec.json.encode(new))
            return new

        yield answer


def _read(
    store: Store, commit: StoredCommit, manner: SummaryOptions
) -> BoundedTranscript | SummaryResult:
    try:
        return read_excerpt(store, commit, manner)
    except CONTENT_ERRORS as error:
        return SummaryResult(ctx=commit.id, failure=str(error))


def _check_answer(result: SummaryAnswer | FailedCall | ItemFailure) -> SummaryAnswer | FailedCall:
    """Return the answer of a worker. Raises ModelError or ConfigError if no call can succeed."""
    if isinstance(result, ItemFailure):
        if isinstance(result.error, ConfigError | ModelError):
            raise result.error
        return FailedCall(str(result.error))
    if isinstance(result, FailedCall) and result.kind in FATAL_KINDS:
        raise ModelError(result.text, why=result.kind)
    return result
