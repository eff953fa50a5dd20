"""Format and parse the request for a summary and the message that contains the summary."""

from __future__ import annotations

from harken.agents import texts


def format_summary_request(instructions: str = "") -> str:
    """Format the request for a summary; `instructions` say what it must keep in particular."""
    stripped = instructions.strip()
    return texts.SUMMARY_REQUEST + (texts.SUMMARY_INSTRUCTIONS.format(stripped) if stripped else "")


def parse_summary_request(request: str) -> str:
    """Parse the instructions from a request: the inverse of `question`."""
    return request.removeprefix(texts.SUMMARY_REQUEST).removeprefix(
        texts.SUMMARY_INSTRUCTIONS.format("")
    )


def format_summary_message(summary: str, *, is_pending: bool) -> str:
    """Format the message with a summary; `is_pending`: the agent has not answered yet."""
    return f"{texts.SUMMARY_HEAD}{summary}{texts.SUMMARY_TAIL if is_pending else ''}"


def parse_summary_message(text: str) -> str:
    """Parse the summary from its message: the inverse of `stand_in`."""
    return text.removeprefix(texts.SUMMARY_HEAD).removesuffix(texts.SUMMARY_TAIL)
