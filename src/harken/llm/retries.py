"""Reporting of retries of model calls, before the SDK waits.

The SDK of a vendor decides whether to send a request again, and how long to wait before. It calls a
method of its client for that time, and this module wraps the method to notify the waiting call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

OnRetry: TypeAlias = Callable[[str], None]
"""Called with one line of text before a retry, with the waiting time."""
_ON_RETRY: ContextVar[OnRetry | None] = ContextVar("on_retry", default=None)
"""The callback of the running call, because all agents share a client."""
_TIMEOUT_METHOD = "_calculate_retry_timeout"
"""The method of the clients of both SDKs that computes the waiting time."""


@contextmanager
def report_retries(on_retry: OnRetry) -> Iterator[None]:
    """Report the retries of model calls in this task to a callback."""
    token = _ON_RETRY.set(on_retry)
    try:
        yield
    finally:
        _ON_RETRY.reset(token)


def watch_retries(client: Any, name: str, max_retries: int) -> None:
    """Wrap a client of an SDK so that it reports its waiting times.

    An SDK without that method retries as before, unreported.
    """
    compute = getattr(client, _TIMEOUT_METHOD, None)
    if compute is None:
        return

    def report(remaining: int, *arguments: Any, **options: Any) -> Any:
        wait_s = compute(remaining, *arguments, **options)
        on_retry = _ON_RETRY.get()
        if on_retry is not None:
            retry = f"retry {max_retries - remaining + 1} of {max_retries}"
            on_retry(f"{name} did not answer; retrying in {wait_s:.1f} s ({retry})")
        return wait_s

    setattr(client, _TIMEOUT_METHOD, report)
