"""Record model calls of other programs as session logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints
    from harken.recording.rebuild import RequestRebuilder
    from harken.recording.recorder import Recorder
    from harken.recording.session_pool import RecorderOptions
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "CapturedRequest": "harken.recording.exchange",
            "CapturedResponse": "harken.recording.exchange",
            "ClientHints": "harken.recording.exchange",
            "Recorder": "harken.recording.recorder",
            "RecorderOptions": "harken.recording.session_pool",
            "RequestRebuilder": "harken.recording.rebuild",
        },
    )

__all__ = [
    "CapturedRequest",
    "CapturedResponse",
    "ClientHints",
    "Recorder",
    "RecorderOptions",
    "RequestRebuilder",
]
