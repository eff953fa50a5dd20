"""Lasting: what is made while the chat begins, and is there until it ends.

With the SDK of a model that is more than a hundred thousand objects. A full collection looks at
them all, and nothing is drawn meanwhile: a tenth of a second, in the middle of a word or an answer.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Collect nothing until the end, and from then on pass over all that is there by then.

    What nothing refers to any more is still freed, but for cycles that are there at the end.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
