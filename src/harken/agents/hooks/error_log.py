"""The log record of a hook that raised, with its traceback."""

from __future__ import annotations

import logging

from harken.agents.agent import Agent

_logger = logging.getLogger(__name__)


def log_error(hook: Agent, where: str, error: BaseException) -> None:
    """Log the traceback of a hook. The record has the members `hook` and `session` (its path)."""
    _logger.error(
        "hook %s (%s) failed %s",
        *(hook.name, type(hook).__name__, where),
        exc_info=error,
        extra={"hook": hook.name, "session": str(hook.session.path)},
    )
