"""The error of a stale session, which earlier versions of ADK raise as ValueError."""

from __future__ import annotations

try:
    from google.adk.errors._stale_session_error import StaleSessionError
except ImportError:
    StaleSessionError = ValueError

__all__ = ["StaleSessionError"]
