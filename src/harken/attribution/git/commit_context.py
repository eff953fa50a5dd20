"""The context of an agent in the commits of git: a trailer of the message, or a note.

The trailer is `Context-Id: ctx-...`, one for each context. A commit that a rebase or a cherry-pick
replays keeps those that it has, since its author wrote it before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harken.attribution.git.blame import decode
from harken.attribution.git.hooks import NOTES_REF, read_place
from harken.attribution.git.repository import GitRepository

TRAILER = "Context-Id"
_TRAILER_PATTERN = re.compile(
    rf"^{TRAILER}: *(ctx-[0-9a-f]{{12,64}})\s*$", re.MULTILINE | re.IGNORECASE
)
_WITH_MESSAGE = frozenset({"message", "merge", "squash", "commit"})
"""The sources of a message that git may commit without an editor."""
_REPLAYS = ("rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD")


def record_context(
    repository: GitRepository, hook: str, arguments: Sequence[str], context_id: str
) -> None:
    """Add a context to the commit for which git runs a hook. Raises ConfigError."""
    is_notes = read_place(repository) == "notes"
    if _is_replaying(repository):
        return
    if hook == "post-commit":
        if is_notes and context_id not in read_contexts(repository, ["HEAD"]).get("HEAD", ()):
            line = f"{TRAILER}: {context_id}"
            repository.run("notes", f"--ref={NOTES_REF}", "append", "-m", line, "HEAD")
        return
    if is_notes or not arguments:
        return
    # Before an editor opens, a trailer would make an empty message look like one with text.
    source = arguments[1] if len(arguments) > 1 else ""
    if hook == "prepare-commit-msg" and source not in _WITH_MESSAGE:
        return
    file = repository.top / arguments[0]
    if _has_text(file):
        _add_trailer(repository, file, context_id)


def _is_replaying(repository: GitRepository) -> bool:
    """Whether a rebase or a cherry-pick is in progress."""
    options = [word for name in _REPLAYS for word in ("--git-path", name)]
    paths = decode(repository.run("rev-parse", *options)).splitlines()
    return any((repository.top / path).exists() for path in paths)


def _has_text(file: Path) -> bool:
    """Whether a message has a line that is no comment and no trailer of ours."""
    lines = file.read_text("utf-8", "replace").splitlines()
    return any(
        line.strip() and not line.startswith("#") and not _TRAILER_PATTERN.match(line)
        for line in lines
    )


def _add_trailer(repository: GitRepository, file: Path, context_id: str) -> None:
    repository.run(
        "interpret-trailers",
        "--in-place",
        f"--trailer={TRAILER}: {context_id}",
        "--",
        str(file),
    )


def read_contexts(repository: GitRepository, commits: Iterable[str]) -> dict[str, list[str]]:
    """Return the contexts that commits name in their trailers and notes, without those of none."""
    contexts: dict[str, list[str]] = {}
    for commit in dict.fromkeys(commits):
        arguments = ("show", f"--notes={NOTES_REF}", "--format=%B%n%N", commit)
        output = repository.try_run(*arguments)
        names = _TRAILER_PATTERN.findall(decode(output or b""))
        if names:
            contexts[commit] = [*dict.fromkeys(names)]
    return contexts
