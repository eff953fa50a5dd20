"""The public test kit: what third parties prove their own models and tools with.

It imports no test runner; pytest and unittest both run its suites.
"""

from harken.testing.clock import ticking
from harken.testing.disk import FailingDisk, Fault, RecordingDisk, faults
from harken.testing.model import ModelSuite, request_of
from harken.testing.store import StoreSuite, batch_of, commit_in
from harken.testing.store_lifecycle import LifecycleSuite

__all__ = [
    "FailingDisk",
    "Fault",
    "LifecycleSuite",
    "ModelSuite",
    "RecordingDisk",
    "StoreSuite",
    "batch_of",
    "commit_in",
    "faults",
    "request_of",
    "ticking",
]
