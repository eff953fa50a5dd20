"""The commands of git that Harken runs, with the flags that fix their output.

A user's configuration and environment change what git prints: colors, line numbers, prefixes of
paths, text converters, revisions that blame ignores. So each command is run with fixed settings,
and with flags that name each format which a setting can change. A command that is not in the table
is not run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_SETTINGS = {
    "color.ui": "false",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "diff.algorithm": "myers",
    "diff.indentHeuristic": "true",
    "diff.renameLimit": "1000",
    "diff.renames": "true",
    "diff.suppressBlankEmpty": "false",
    "i18n.logOutputEncoding": "UTF-8",
    "log.follow": "false",
    "log.showRoot": "true",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "trailer.context-id.key": "Context-Id",
    "trailer.separators": ":",
}
_DIFF_FLAGS = (
    *("-U0", "--inter-hunk-context=0", "--text", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short"),
)
_LOG_FLAGS = ("--no-color", "--no-decorate", "--no-notes", "--no-mailmap", "--no-ext-diff")
_FLAGS: Mapping[str, tuple[str, ...]] = {
    # The empty name clears the list of files with revisions to ignore.
    "blame": ("--ignore-revs-file=", "--no-textconv", "--no-progress"),
    "cat-file": (),
    "config": (),
    "diff": _DIFF_FLAGS,
    "diff-tree": ("--no-commit-id", "-r", "-p", *_DIFF_FLAGS),
    "for-each-ref": (),
    "grep": (
        *("--no-color", "--no-line-number", "--no-column", "--no-heading", "--no-break"),
        *("--no-textconv", "--no-recurse-submodules"),
    ),
    "interpret-trailers": (
        *("--no-divider", "--where=end", "--if-exists=addIfDifferent", "--if-missing=add"),
    ),
    "log": _LOG_FLAGS,
    "ls-files": (),
    "ls-tree": (),
    "notes": (),
    "rev-list": (),
    "rev-parse": (),
    "show": ("--no-patch", *_LOG_FLAGS),
    "stripspace": (),
}
_FIXED_VARIABLES = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
_UNSET_VARIABLES = frozenset(
    {
        *("GIT_DIFF_OPTS", "GIT_EXTERNAL_DIFF", "GIT_NOTES_REF", "GIT_NOTES_DISPLAY_REF"),
        *("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS"),
        *("GIT_ICASE_PATHSPECS", "GIT_PREFIX"),
    }
)
PATH_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")
"""Git resolves their paths from its working folder, which is not that of Harken."""


def command_line(
    name: str, *arguments: str, settings: Mapping[str, str] | None = None
) -> list[str]:
    """Return the command line of a command of git.

    `settings`: values of the configuration beside the fixed ones.
    """
    options = [
        option
        for key, value in {**_SETTINGS, **(settings or {})}.items()
        for option in ("-c", f"{key}={value}")
    ]
    return [
        *("git", *options, "--no-optional-locks", "--literal-pathspecs"),
        *(name, *_FLAGS[name], *arguments),
    ]


def git_environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of git, whose relative paths are of a folder."""
    kept = {name: value for name, value in environ.items() if name not in _UNSET_VARIABLES}
    paths = {
        name: os.path.join(folder, kept[name])  # noqa: PTH118 (Path would change the text)
        for name in PATH_VARIABLES
        if kept.get(name)
    }
    return {**kept, **paths, **_FIXED_VARIABLES}
