"""A session service of Google's Agent Development Kit (ADK) over Harken's store.

    service = HarkenSessionService("~/.harken")
    runner = Runner(app_name="trips", agent=agent, session_service=service)

A session is a session of Harken, too: `harken view google-adk:APP/USER/SESSION` shows it.

Source: docs/how-to/use-with-google-adk.md; docs/design/020-adapters.md.
"""

from __future__ import annotations

try:
    import google.adk as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "harken.adapters.google_adk needs Google's Agent Development Kit: install it with "
        "`pip install harken[google-adk]`"
    ) from error

from harken.adapters.google_adk.session_service import HarkenSessionService

__all__ = ["HarkenSessionService"]
