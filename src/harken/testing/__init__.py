"""The public test kit for third-party models, stores and formats.

It imports no test runner; pytest and unittest both run its suites. Names are imported lazily,
because pytest imports this package for the plugin `harken.testing.cassette` in every project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.testing.fakes import FailingDisk, Fault, RecordingDisk, faults, ticking
    from harken.testing.formats import FormatSuite, odd_conversation, plain_conversation
    from harken.testing.model import ModelSuite, request_of
    from harken.testing.store import StoreSuite, batch_of, commit_in
    from harken.testing.store_lifecycle import LifecycleSuite
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "FailingDisk": "harken.testing.fakes",
            "Fault": "harken.testing.fakes",
            "FormatSuite": "harken.testing.formats",
            "LifecycleSuite": "harken.testing.store_lifecycle",
            "ModelSuite": "harken.testing.model",
            "RecordingDisk": "harken.testing.fakes",
            "StoreSuite": "harken.testing.store",
            "batch_of": "harken.testing.store",
            "commit_in": "harken.testing.store",
            "faults": "harken.testing.fakes",
            "odd_conversation": "harken.testing.formats",
            "plain_conversation": "harken.testing.formats",
            "request_of": "harken.testing.model",
            "ticking": "harken.testing.fakes",
        },
    )

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
