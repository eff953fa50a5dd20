"""The target of `harken review`: a ticket, a file with a diff, or a commit of git."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harken.config.home import current_folder
from harken.errors import ConfigError
from harken.review.request import ChangeToReview
from harken.store.branches import TICKET_PREFIX

MAX_DIFF_BYTES = 16 * 1024 * 1024
_GIT_TIMEOUT_S = 60.0
_STDIN = "-"
# No program that the repository configures is run.
_GIT = ("git", "-c", "core.fsmonitor=false", "show", "--no-ext-diff", "--no-textconv", "--no-color")


def is_ticket(target: str) -> bool:
    """Whether a target is the id of a ticket."""
    return target.startswith(TICKET_PREFIX)


def read_target(target: str) -> ChangeToReview:
    """Return the change in a file, from stdin (`-`), or of a commit of git in this folder.

    Raises ConfigError if there is no such change, or if it is empty or too large.
    """
    if target == _STDIN:
        change = ChangeToReview(title="Review of a diff", diff=sys.stdin.buffer.read())
    elif Path(target).is_file():
        change = ChangeToReview(
            title=f"Review of {_one_line(Path(target).name)}", diff=Path(target).read_bytes()
        )
    else:
        change = _read_git_commit(target)
    if not change.diff.strip():
        raise ConfigError(f"{target}: empty: there is no change to review")
    if len(change.diff) > MAX_DIFF_BYTES:
        limit_mb = MAX_DIFF_BYTES // 1024 // 1024
        raise ConfigError(f"{target}: larger than {limit_mb} MB; review it in parts")
    return change


def _read_git_commit(revision: str) -> ChangeToReview:
    missing = f"{revision}: not a file, a ticket (tkt-...) or a commit of git in this folder"
    message = _run_git("--no-patch", "--format=%h %s%n%b", revision, missing)
    subject, _, body = message.decode("utf-8", "replace").partition("\n")
    diff = _run_git("--patch", "--format=", revision, missing)
    return ChangeToReview(title=f"Review of {_one_line(subject)}", body=body.strip(), diff=diff)


def _run_git(kind: str, form: str, revision: str, missing: str) -> bytes:
    """Return the output of `git show` for a revision. Raises ConfigError."""
    if revision.startswith("-"):
        raise ConfigError(missing)
    try:
        result = subprocess.run(
            [*_GIT, kind, form, f"{revision}^{{commit}}", "--"],
            cwd=current_folder(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{missing} ({error})") from None
    if result.returncode != 0:
        raise ConfigError(missing)
    return result.stdout


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]
