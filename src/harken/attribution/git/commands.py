"""The commands of git that Harken runs, with the flags that fix their output.

A user's configuration and environment change what git prints: colors, line numbers, prefixes of
paths, text converters, revisions that blame ignores. So each command is run with fixed settings,
and with flags that name each format which a setting can change. A command that is not in the table
is not run.

The configuration and the attributes of a repository may come from anyone, and name programs. A
user who runs git there trusts it; a session that only names its folder does not. So no command
runs a program that a repository names, and none asks a remote for an object that is missing.

Source: git-config(1), gitattributes(5), git(1) (GIT_ALLOW_PROTOCOL, GIT_NO_LAZY_FETCH).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from harken.errors import ConfigError

_SAFE_SETTINGS = {
    "core.fsmonitor": "false",
    "diff.autoRefreshIndex": "false",  # Writing the index runs a hook.
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
}
_FORMAT_SETTINGS = {
    "color.ui": "false",
    "core.quotePath": "false",
    "diff.algorithm": "myers",
    "diff.indentHeuristic": "true",
    "diff.renameLimit": "1000",
    "diff.renames": "true",
    "diff.suppressBlankEmpty": "false",
    "i18n.logOutputEncoding": "UTF-8",
    "log.follow": "false",
    "log.showRoot": "true",
    "submodule.recurse": "false",
    "trailer.context-id.key": "Context-Id",
    "trailer.separators": ":",
}
_DIFF_FLAGS = (
    *("-U0", "--inter-hunk-context=0", "--text", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short"),
    # Git would run `git status` in each submodule, with the filters of its configuration.
    "--ignore-submodules=dirty",
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
_EMPTY_VARIABLE = "HARKEN_GIT_EMPTY"
_FIXED_VARIABLES = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # For versions of git that do not know the one before.
    _EMPTY_VARIABLE: "",
}
_UNSET_VARIABLES = frozenset(
    {
        *("GIT_DIFF_OPTS", "GIT_EXTERNAL_DIFF", "GIT_NOTES_REF", "GIT_NOTES_DISPLAY_REF"),
        *("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS"),
        *("GIT_ICASE_PATHSPECS", "GIT_PREFIX"),
    }
)
PATH_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")
"""Git resolves their paths from its working folder, which is not that of Harken."""
FILTERED_COMMANDS = frozenset({"blame", "diff"})
"""The commands that read files of the working tree through the filters of their attributes."""
FILTER_PATTERN = r"^filter\..*\.(clean|process)$"
_MAX_FILTERS = 100


def _format_options(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for key, text in settings.items() for word in ("-c", f"{key}={text}"))


SAFE_OPTIONS = _format_options(_SAFE_SETTINGS)
"""The options that every call of git has, also of other modules."""


def command_line(
    name: str,
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    filters: Iterable[str] = (),
) -> list[str]:
    """Return the command line of a command of git.

    `settings`: values of the configuration beside the fixed ones. `filters`: the settings of
    filters, which are turned off. Raises ConfigError if there are too many.
    """
    format_options = _format_options({**_FORMAT_SETTINGS, **(settings or {})})
    return [
        *("git", *SAFE_OPTIONS, *format_options, *_turn_off(filters)),
        *("--no-optional-locks", "--literal-pathspecs", name, *_FLAGS[name], *arguments),
    ]


def _turn_off(filters: Iterable[str]) -> list[str]:
    """Return the options that empty the programs of filters. An empty `required` is false.

    The name of a filter may contain `=`, at which git splits the value of `-c`.
    """
    names = {setting.rpartition(".")[0] for setting in filters}
    if len(names) > _MAX_FILTERS:
        raise ConfigError(f"the configuration of git has more than {_MAX_FILTERS} filters")
    settings = [
        f"{name}.{key}" for name in sorted(names) for key in ("clean", "process", "required")
    ]
    return [f"--config-env={setting}={_EMPTY_VARIABLE}" for setting in settings]


def git_environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of git, whose relative paths are of a folder.

    Programs are not searched in relative folders: git runs in the repository.
    """
    kept = {name: value for name, value in environ.items() if name not in _UNSET_VARIABLES}
    paths = {
        name: os.path.join(folder, kept[name])  # noqa: PTH118 (Path would change the text)
        for name in PATH_VARIABLES
        if kept.get(name)
    }
    folders = kept.get("PATH", os.defpath).split(os.pathsep)
    search_path = os.pathsep.join(name for name in folders if os.path.isabs(name))  # noqa: PTH117
    return {**kept, **paths, **_FIXED_VARIABLES, "PATH": search_path}
