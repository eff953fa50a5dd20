"""The target of `harken review`: a ticket, a file with a diff, or commits of git."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harken.attribution.git.commands import SAFE_OPTIONS, git_environment
from harken.config.home import current_folder, environment
from harken.errors import ConfigError
from harken.review.request import ChangeToReview
from harken.store.branches import TICKET_PREFIX

MAX_DIFF_BYTES = 16 * 1024 * 1024
_GIT_TIMEOUT_S = 60.0
_STDIN = "-"
# No program that the repository configures is run.
_GIT = ("git", *SAFE_OPTIONS)
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color")
_NO_TARGET = "not a file, a ticket (tkt-...), a commit or a range of git in this folder"
_RANGE_PATTERN = re.compile(r"(.*?)(\.{2,3})(.*)")


def is_ticket(target: str) -> bool:
    """Whether a target is the id of a ticket."""
    return target.startswith(TICKET_PREFIX)


def read_target(target: str) -> ChangeToReview:
    """Return the change in a file, from stdin (`-`), or of a commit or range in this folder.

    Raises ConfigError if there is no such change, or if it is empty or too large.
    """
    if target == _STDIN:
        diff = sys.stdin.buffer.read(MAX_DIFF_BYTES + 1)
        change = ChangeToReview(title="Review of a diff", diff=diff)
    elif Path(target).is_file():
        with Path(target).open("rb") as file:
            diff = file.read(MAX_DIFF_BYTES + 1)
        change = ChangeToReview(title=f"Review of {_one_line(Path(target).name)}", diff=diff)
    elif ".." in target:
        change = _read_git_range(target)
    else:
        change = _read_git_commit(target)
    if not change.diff.strip():
        raise ConfigError(f"{target}: empty: there is no change to review")
    if len(change.diff) > MAX_DIFF_BYTES:
        limit_mb = MAX_DIFF_BYTES // 1024 // 1024
        raise ConfigError(f"{target}: larger than {limit_mb} MB; review it in parts")
    return change


def _read_git_commit(revision: str) -> ChangeToReview:
    """Read a commit. The change of a merge is that against its first parent."""
    missing = f"{revision}: {_NO_TARGET}"
    commit = _resolve(revision, missing)
    show = ("show", *_PLAIN, "--first-parent", "-m")
    message = _run_git((*show, "--no-patch", "--format=%h %s%n%b", commit, "--"), missing)
    subject, _, body = message.decode("utf-8", "replace").partition("\n")
    diff = _run_git((*show, "--patch", "--format=", commit, "--"), missing)
    return ChangeToReview(title=f"Review of {_one_line(subject)}", body=body.strip(), diff=diff)


def _read_git_range(target: str) -> ChangeToReview:
    """Read the commits of `A..B`, or those of `A...B` since both parted, as one change."""
    missing = f"{target}: {_NO_TARGET}"
    match = _RANGE_PATTERN.fullmatch(target)
    if match is None:
        raise ConfigError(missing)
    ends = [_resolve(end or "HEAD", missing) for end in (match[1], match[3])]
    log = ("log", "--no-color", "--no-decorate", "--reverse", "--format=%h %s")
    body = _run_git((*log, "..".join(ends), "--"), missing).decode("utf-8", "replace")
    diff = _run_git(("diff", *_PLAIN, match[2].join(ends), "--"), missing)
    return ChangeToReview(title=f"Review of {_one_line(target)}", body=body.strip(), diff=diff)


def _resolve(revision: str, missing: str) -> str:
    """Return the id of a commit. Raises ConfigError."""
    arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return _run_git(arguments, missing).decode().strip()


def _run_git(arguments: tuple[str, ...], missing: str) -> bytes:
    """Return the output of git. Raises ConfigError."""
    try:
        result = subprocess.run(
            [*_GIT, *arguments],
            cwd=current_folder(),
            env=git_environment(current_folder(), environment()),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{missing} ({error})") from None
    if result.returncode != 0:
        raise ConfigError(missing)
    return result.stdout


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]
