"""The context of an agent in the commits of git: a trailer of the message, or a note.

The trailer is `Context-Id: ctx-...`, one for each context. It is added when the message is settled
(`commit-msg`): an earlier one would make an empty message look like one with text, and git would
make a commit that its author aborted. A commit without the trailer, because its hooks were skipped
or it is kept in notes, gets a note. A commit that a rebase or a cherry-pick replays keeps those
that it has, since its author wrote it before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from harken.attribution.git.blame import decode
from harken.attribution.git.hooks import NOTES_REF, read_place
from harken.attribution.git.repository import GitRepository

TRAILER = "Context-Id"
_LINE_PATTERN = re.compile(rf"{TRAILER}: *(ctx-[0-9a-f]{{12,64}})\s*", re.IGNORECASE)
_TRAILER_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*:.*|\s+\S.*|\(cherry picked from .*")
_SQUASH_HEADING = "Squashed commit of the following:"
_COMMIT_PATTERN = re.compile(r"commit [0-9a-f]{40,64}")
_SIGN_OFF = "Signed-off-by: "
_NO_COMMENT = "\x01"
"""A character that begins no line of a message: with it, git takes no line for a comment."""
_COMMENT_CHARS = "#;@!$%^&|:"
"""The characters of which git chooses one with `core.commentChar=auto`."""
_SCISSORS_PATTERN = re.compile(r"^(\S+) -{24} >8 -{24}$", re.MULTILINE)
_STOPS_WITH_A_COMMIT = frozenset({"edit", "e"})
_STOPS = frozenset({"break", "b", "exec", "x"})


def record_context(
    repository: GitRepository,
    hook: str,
    arguments: Sequence[str],
    context_id: str,
    environ: Mapping[str, str],
) -> bool:
    """Record a context in the commit for which git runs a hook. Return whether the commit has it.

    Raises ConfigError.
    """
    if _is_replaying(repository):
        return False
    if hook == "commit-msg":
        if read_place(repository) == "notes" or not arguments:
            return False
        # Git sets this editor where it opens none.
        message = _Message(
            repository, repository.top / arguments[0], has_editor=environ.get("GIT_EDITOR") != ":"
        )
        return message.add_trailer(context_id)
    if hook != "post-commit":
        return False
    if context_id not in read_contexts(repository, ["HEAD"]).get("HEAD", ()):
        line = f"{TRAILER}: {context_id}"
        repository.run("notes", f"--ref={NOTES_REF}", "append", "-m", line, "HEAD")
    return True


def _is_replaying(repository: GitRepository) -> bool:
    """Whether a rebase or a cherry-pick makes the commit, and not the user where a rebase stops."""
    names = ("CHERRY_PICK_HEAD", "rebase-apply", "rebase-merge")
    options = [word for name in names for word in ("--git-path", name)]
    lines = decode(repository.run("rev-parse", *options)).splitlines()
    cherry_pick, rebase_apply, rebase_merge = (repository.top / line for line in lines)
    if cherry_pick.exists() or rebase_apply.exists():
        return True
    if not rebase_merge.exists():
        return False
    try:
        done = (rebase_merge / "done").read_text("utf-8", "replace").split("\n")
    except OSError:
        return True
    command = next((line.split(" ")[0] for line in reversed(done) if line.strip()), "")
    if command in _STOPS_WITH_A_COMMIT:
        return not (rebase_merge / "stopped-sha").exists()
    return command not in _STOPS


class _Message(msgspec.Struct, frozen=True):
    """The message of a commit, in the file that git gives to the hook `commit-msg`."""

    repository: GitRepository
    file: Path
    has_editor: bool
    """Whether git opened an editor, and removes comments afterwards."""

    def add_trailer(self, context_id: str) -> bool:
        """Add a context to the message. Return False for one that git takes for empty."""
        data = self.file.read_bytes()
        text = decode(data)
        comment = self._find_comment(text)
        if not self._has_text(text, comment):
            return False
        if not data.endswith(b"\n"):
            data += b"\n"
        output = self.repository.run(
            "interpret-trailers",
            f"--trailer={TRAILER}: {context_id}",
            stdin=data,
            settings={"core.commentChar": comment if self.has_editor else _NO_COMMENT},
        )
        self.file.write_bytes(output)
        return True

    def _find_comment(self, text: str) -> str:
        """Return the prefix of comments in the message."""
        value = decode(self.repository.try_run("config", "--get", "core.commentChar") or b"#")
        comment = value.rstrip("\n")
        if comment.lower() != "auto":
            return comment
        scissors = _SCISSORS_PATTERN.search(text)
        last = next((line for line in reversed(text.split("\n")) if line.strip()), "")
        character = scissors[1] if scissors is not None else last[:1]
        return character if character and character in _COMMENT_CHARS else "#"

    def _has_text(self, text: str, comment: str) -> bool:
        """Whether git makes a commit with the message: it has text that its author wrote."""
        if not self.has_editor and not text.startswith("\n"):
            lines = [line for line in text.rstrip("\n").split("\n") if not _is_generated(line)]
            if lines and all(line.strip() for line in lines):
                return True  # Without an editor, git keeps lines that look like comments.
        message = self._strip(text, comment)
        template = self._read_template(comment)
        if template and message.startswith(template):
            message = message[len(template) :]
        return any(line.strip() and not _is_generated(line) for line in message.split("\n"))

    def _strip(self, text: str, comment: str) -> str:
        """Return a text without its comments and the part below the scissors line."""
        scissors = _SCISSORS_PATTERN.search(text)
        if scissors is not None and scissors[1] == comment:
            text = text[: scissors.start()]
        output = self.repository.run(
            "stripspace",
            "--strip-comments",
            stdin=text.encode("utf-8", "surrogateescape"),
            settings={"core.commentChar": comment},
        )
        return decode(output)

    def _read_template(self, comment: str) -> str:
        value = self.repository.try_run("config", "--path", "--get", "commit.template")
        if value is None:
            return ""
        try:
            text = decode((self.repository.top / decode(value).rstrip("\n")).read_bytes())
        except OSError:
            return ""
        return self._strip(text, comment)


def _is_generated(line: str) -> bool:
    """Whether git or Harken adds such a line to a message."""
    return line.startswith(_SIGN_OFF) or _LINE_PATTERN.fullmatch(line) is not None


def read_contexts(repository: GitRepository, commits: Iterable[str]) -> dict[str, list[str]]:
    """Return the contexts that commits name in their trailers and notes, without those of none.

    A message may quote a trailer: only those at its end are read, and those at the ends of the
    messages that a squash merge lists.
    """
    contexts: dict[str, list[str]] = {}
    for commit in dict.fromkeys(commits):
        arguments = ("show", f"--notes={NOTES_REF}", "--format=%B%x00%N", commit)
        output = decode(repository.try_run(*arguments) or b"")
        message, _, notes = output.partition("\0")
        names = [
            *_find_last_trailers(message.split("\n")),
            *_find_squashed(message),
            *(match[1] for line in notes.split("\n") if (match := _LINE_PATTERN.fullmatch(line))),
        ]
        if names:
            contexts[commit] = [*dict.fromkeys(names)]
    return contexts


def _find_squashed(message: str) -> Iterator[str]:
    """Yield the contexts of the commits that a message of `git merge --squash` lists."""
    _, heading, text = message.partition(f"{_SQUASH_HEADING}\n")
    if not heading:
        return
    lines: list[str] = []
    for line in [*text.split("\n"), "commit " + "0" * 40]:
        if _COMMIT_PATTERN.fullmatch(line):
            yield from _find_last_trailers(lines)
            lines = []
        elif line.startswith("    ") or not line:
            lines.append(line[4:])


def _find_last_trailers(lines: Sequence[str]) -> Iterator[str]:
    """Yield the contexts in the last paragraph of a message, if that has trailers only.

    Git itself also accepts a paragraph with other lines, so that a quoted trailer may be one.
    """
    last = "\n".join(lines).strip("\n").rpartition("\n\n")[2].split("\n")
    if all(_TRAILER_PATTERN.fullmatch(line) for line in last):
        yield from (match[1] for line in last if (match := _LINE_PATTERN.fullmatch(line)))
