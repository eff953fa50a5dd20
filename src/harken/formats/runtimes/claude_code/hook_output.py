"""The output of hooks that Claude Code adds to the context, from its attachments.

The client records each run of a hook. The output of `SessionStart` and `UserPromptSubmit` is read
by the model, and so is the additional context of any hook; all other output is for display. The
client repeats it when it resumes, in the system message after the user message.

Source: docs/formats/claude-code.md, "Hooks"; the requests of 2.1.329; the vendor's documentation of
hooks ("stdout is added as context").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HOOK = "hook"
"""The member of an entry's source with the attachment, without its content."""
SUCCESS, CONTEXT = "hook_success", "hook_additional_context"
_SUCCESS_EVENTS = frozenset({"SessionStart", "UserPromptSubmit"})
_MEMBERS = ("type", "hookName", "hookEvent", "toolUseID")
_LABELS = {SUCCESS: "hook success", CONTEXT: "hook additional context"}

Attachment = Mapping[str, Any]


def hook_output(attachment: object) -> str:
    """Return the text that a model reads of an attachment. Empty if it is no output of a hook."""
    if not isinstance(attachment, Mapping):
        return ""
    content = attachment.get("content")
    if attachment.get("type") == SUCCESS:
        is_read = attachment.get("hookEvent") in _SUCCESS_EVENTS
        return content if is_read and isinstance(content, str) else ""
    if attachment.get("type") != CONTEXT or not isinstance(content, list):
        return ""
    return "\n".join(text for text in content if isinstance(text, str))


def read_hook(attachment: object) -> dict[str, Any]:
    """Return the members of an entry's source for the output of a hook, if it is one."""
    if not isinstance(attachment, Mapping) or not hook_output(attachment):
        return {}
    return {HOOK: {name: attachment[name] for name in _MEMBERS if name in attachment}}


def build_hook_attachment(source: Mapping[str, Any], text: str) -> dict[str, Any] | None:
    """Return the attachment of an entry with the output of a hook. Return None for others."""
    hook = source.get(HOOK)
    if not isinstance(hook, Mapping) or hook.get("type") not in _LABELS:
        return None
    return {**hook, "content": text if hook["type"] == SUCCESS else [text]}


def format_hook_output(source: Mapping[str, Any], text: str) -> str | None:
    """Return the output of a hook as it is sent. Return None for the text of another entry."""
    hook = source.get(HOOK)
    if not isinstance(hook, Mapping) or hook.get("type") not in _LABELS:
        return None
    return f"{hook.get('hookName') or ''} {_LABELS[hook['type']]}: {text}"
