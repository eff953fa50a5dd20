"""Hook files: hooks that users write as Markdown files.

    ---
    description: Asks before anything is sent.
    points: [action]
    tools: [ask_user]
    ---
    When the agent is about to send something, ask the user first. ...

The text is what the hook is told. With `use: todo-reminder` and `options:` instead it is one that
is code. A file is read when the hook is put somewhere; what was read stands in the log,
so an edit changes nothing that watches already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.agent_classes import get_agent_class
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import options_from
from harken.agents.hooks.registry import BUILT_IN, get_hook_class
from harken.agents.runtime import AgentRuntime
from harken.agents.templates import front_matter
from harken.agents.templates.front_matter import (
    NAME,
    Malformed,
    file_errors,
    find_markdown_files,
    read_markdown_file,
)
from harken.agents.templates.template import Template
from harken.agents.tree.hook_action import new_hook
from harken.core import canonical
from harken.core.arguments import check_arguments, format_existing
from harken.core.event_types.spec import AgentSpec, Copies, HookPoint, Standing
from harken.core.verdict import HOOK_POINTS
from harken.errors import ConfigError, NameNotFound

HOOK_FILE = b"harken.hook.v1\n"
"""The domain line of a hook file's hash, which covers all bytes of it."""
SHIPPED = Path(__file__).parents[1] / "built_in"
"""The folder of the built-in smart hooks."""

MAX_LISTED = 50
"""The maximum hooks in the description of the action `hook`."""
MAX_DESCRIPTION_CHARS = 200

_KEYS = frozenset(
    {"name", "description", "points", "tools", "model", "keeps", "subagents", "copy"}
    | {"use", "options"}
)
_OF_SMART = ("tools", "model", "keeps", "copy")


class HookFile(msgspec.Struct, frozen=True, kw_only=True):
    """A hook file as it was when it was read."""

    name: str
    instructions: str = ""
    """The instructions of a smart hook; empty for a hook that is code."""
    description: str = ""
    """Its purpose, on one line."""
    points: tuple[HookPoint, ...] | None = None
    """The points at which it is asked. None: all, or those of the class for a hook that is code."""
    tools: tuple[str, ...] = ()
    """Its tools besides those of every hook."""
    model: str | None = None
    """The full name of its model, or None for the model of the watched agent."""
    keeps: Literal["notes", "all"] = "notes"
    """The part of its context that survives a question."""
    subagents: bool = True
    """Whether subagents of the watched agent get a copy."""
    copy: str = ""
    """Additional instructions for a copy."""
    use: str | None = None
    """The registered name of the hook that is code."""
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    path: Path
    hash: str
    """BLAKE3 of the file: 64 hex digits."""
    ignored: tuple[str, ...] = ()
    """Members of the front matter without a meaning here."""

    def create_hook(self, watched: Agent) -> Agent:
        """Create this hook, unborn, for an agent. Raises ConfigError."""
        hook = (
            self._create_smart(watched)
            if self.use is None
            else self._create_code(watched, self.use)
        )
        points = None if self.points is None else [*self.points]
        members = AgentSpec(copies=self._copies(), standing=Standing(points=points))
        hook._birth_spec = hook._birth_spec.merge(members)
        return hook

    def _copies(self) -> Copies | None:
        copies = Copies(subagents=self.subagents, instructions=self.copy or None)
        return None if copies == Copies() else copies

    def kind(self, use: str, runtime: AgentRuntime) -> type[Hook]:
        """Return the hook class that the file uses, after checking its options.

        Raises ConfigError. A hook file must not name a class that runs programs: files come with a
        project, and those programs would run outside of any sandbox.
        """
        try:
            kind = get_hook_class(use, runtime)
            if not kind._can_restore:
                raise ConfigError(f"{use} runs programs, which no hook file may name")
            options_from(use, kind.Options, self.options)
        except (ConfigError, NameNotFound) as error:
            raise ConfigError(f"{self.path}: {error}") from None
        return kind

    def _create_code(self, watched: Agent, use: str) -> Agent:
        kind = self.kind(use, watched.runtime)
        return kind(watched.session, runtime=watched.runtime, options=self.options)

    def _create_smart(self, watched: Agent) -> Agent:
        runtime = watched.runtime
        if self.model is not None:
            self._check_model(self.model, runtime)
        tool_names = {*ACTIONS, *runtime.world.tools}
        for name in self.tools:
            if name not in tool_names:
                existing = format_existing(sorted(tool_names), "tools")
                raise ConfigError(f"{self.path}: tool {name!r} not found{existing}")
        template = Template(
            name=self.name,
            instructions=self.instructions,
            model=self.model,
            path=self.path,
            hash=self.hash,
        )
        return new_hook(
            watched,
            self.instructions,
            points=self.points,
            tools=self.tools,
            template=template,
            spec=AgentSpec(keeps=self.keeps),
        )

    def _check_model(self, name: str, runtime: AgentRuntime) -> None:
        """Raise ConfigError for an unknown model, before the hook is asked."""
        try:
            runtime.get_model(name)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None


class HookInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A hook that can be chosen by name."""

    name: str
    description: str
    smart: bool
    """Whether a model judges; otherwise code does."""
    path: Path | None = None
    """Its file, if a user wrote it."""
    problem: str = ""
    """The reason why it cannot be used, or empty."""
    runs_programs: bool = False

    @property
    def is_installable(self) -> bool:
        """Whether an agent can install it by its name."""
        return not self.problem and not self.runs_programs


def _describe_file(path: Path) -> HookInfo:
    user_path = None if path.parent == SHIPPED else path
    try:
        file = read_hook(path)
        if file.use is not None:
            file.kind(file.use, AgentRuntime())
    except ConfigError as error:
        return HookInfo(
            name=path.stem, description="", smart=True, path=user_path, problem=str(error)
        )
    return HookInfo(
        name=file.name, description=file.description, smart=file.use is None, path=user_path
    )


def _describe_kind(name: str) -> HookInfo:
    kind: type[Agent] = get_agent_class(name, AgentRuntime().library)
    description = (kind.__doc__ or "").strip().split("\n")[0]
    return HookInfo(
        name=name, description=description, smart=False, runs_programs=not kind._can_restore
    )


@check_arguments
class HookFiles:
    """Hooks by name: from files in some folders, then built-in hooks."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """Set the folders, which are scanned on each access and need not exist."""
        self.folders = tuple(folders)

    def create(self, name: str, watched: Agent) -> Agent:
        """Create an unborn hook for an agent; `install(watched, name)` installs it.

        Raises NameNotFound with the existing names, ConfigError for an unusable hook.
        """
        file = self.find(name)
        if file is not None:
            return file.create_hook(watched)
        if name not in BUILT_IN and name not in watched.runtime.library.kinds:
            raise NameNotFound("hook", name, self.names())
        return get_hook_class(name, watched.runtime)(watched.session, runtime=watched.runtime)

    def find(self, name: str) -> HookFile | None:
        """Return the hook file of this name, read now, or None if there is none.

        Raises ConfigError for an unusable file.
        """
        path = self._files().get(name) if NAME.fullmatch(name) else None
        return None if path is None else read_hook(path)

    def list_hooks(self) -> list[HookInfo]:
        """Return all hooks to choose from, sorted by name."""
        files = self._files()
        rows = [_describe_file(path) for path in files.values()]
        rows += [_describe_kind(name) for name in BUILT_IN if name not in files]
        return sorted(rows, key=lambda info: info.name)

    def listing(self) -> str:
        """Format a line for each hook that an agent may install: its name and description.

        Hooks that cannot be used, and those that run programs, are left out.
        """
        usable = (info for info in self.list_hooks() if info.is_installable)
        return "\n".join(
            f"- {info.name}: {info.description[:MAX_DESCRIPTION_CHARS]}".rstrip(": ")
            for info in islice(usable, MAX_LISTED)
        )

    def names(self) -> list[str]:
        """Return the names of all hook files and built-in hooks, sorted."""
        return sorted({*self._files(), *BUILT_IN})

    def _files(self) -> dict[str, Path]:
        return find_markdown_files([*self.folders, SHIPPED])


def read_hook(path: Path) -> HookFile:
    """Read a hook file. Raises ConfigError, with a single line, if it cannot be used."""
    with file_errors(path):
        page = read_markdown_file(path)
        front_matter.check_name_member(page.front, path.stem)
        front_matter.check_members(page.front, _KEYS)
        fields = _parse_members(page.front)
        instructions = page.body.strip()
        if fields["use"] is None and not instructions:
            raise Malformed("has no instructions: write them below the front matter")
        if fields["use"] is not None and (
            instructions or any(key in page.front for key in _OF_SMART)
        ):
            raise Malformed("uses a hook that is code, which has `options` and no instructions")
        if fields["use"] is None and fields["options"]:
            raise Malformed("has options, which are for a hook that is code: name it with `use`")
    return HookFile(
        name=path.stem,
        instructions=instructions,
        path=path,
        hash=canonical.hash_bytes(HOOK_FILE, page.data).hex(),
        ignored=tuple(sorted(page.front.keys() - _KEYS)),
        **fields,
    )


def _parse_members(front: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the supported members into fields of a hook file."""
    keeps, subagents, options = front.get("keeps"), front.get("subagents"), front.get("options")
    if keeps not in (None, "notes", "all"):
        raise Malformed("keeps must be `notes` or `all`")
    if not isinstance(subagents, bool | None):
        raise Malformed("subagents is true or false: whether they get a copy")
    if not isinstance(options, dict | None):
        raise Malformed("options is a list of members such as `requests: 5`")
    return {
        "description": front_matter.one_line(front, "description"),
        "points": _parse_points(front),
        "tools": front_matter.names(front, "tools", "read, search") or (),
        "model": front_matter.text(front, "model").strip() or None,
        "keeps": keeps or "notes",
        "subagents": subagents is not False,
        "copy": front_matter.text(front, "copy").strip(),
        "use": front_matter.text(front, "use").strip() or None,
        "options": options or {},
    }


def _parse_points(front: Mapping[str, Any]) -> tuple[HookPoint, ...] | None:
    points = front_matter.names(front, "points", "action, response")
    unknown = [name for name in points or () if name not in HOOK_POINTS]
    if unknown:
        raise Malformed(f"points are input, action, result and response, not {unknown[0]!r}")
    return cast("tuple[HookPoint, ...] | None", points)
