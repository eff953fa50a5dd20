"""The public test kit for third-party models, stores and formats.

It imports no test runner; pytest and unittest both run its suites. Names are imported lazily,
because pytest imports this package for the plugin `harken.testing.cassette` in every project.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.testing.fakes import FailingDisk, Fault, RecordingDisk, faults, ticking
    from harken.testing.formats import FormatSuite, odd_conversation, plain_conversation
    from harken.testing.model import ModelSuite, request_of
    from harken.testing.store import StoreSuite, batch_of, commit_in
    from harken.testing.store_lifecycle import LifecycleSuite
else:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        if name not in _HOMES:
            raise AttributeError(f"module 'harken.testing' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"harken.testing.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


_HOMES = {
    "FailingDisk": "fakes",
    "Fault": "fakes",
    "FormatSuite": "formats",
    "LifecycleSuite": "store_lifecycle",
    "ModelSuite": "model",
    "RecordingDisk": "fakes",
    "StoreSuite": "store",
    "batch_of": "store",
    "commit_in": "store",
    "faults": "fakes",
    "odd_conversation": "formats",
    "plain_conversation": "formats",
    "request_of": "model",
    "ticking": "fakes",
}
__all__ = [
    "FailingDisk",
    "Fault",
    "FormatSuite",
    "LifecycleSuite",
    "ModelSuite",
    "RecordingDisk",
    "StoreSuite",
    "batch_of",
    "commit_in",
    "faults",
    "odd_conversation",
    "plain_conversation",
    "request_of",
    "ticking",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
