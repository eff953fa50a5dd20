"""Hook files: a hook that a person writes, as a Markdown file.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.agent_classes import get_agent_class
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.options import options_from
from harken.agents.hooks.registry import BUILT_IN, hook_kind
from harken.agents.runtime import AgentRuntime
from harken.agents.templates import front_matter
from harken.agents.templates.front_matter import NAME, Malformed, files_in, naming, read_page
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.hook_action import new_hook
from harken.core import canonical
from harken.core.arguments import check_arguments
from harken.core.verdict import POINTS, HookPoint
from harken.errors import ConfigError, NameNotFound

HOOK_FILE = b"harken.hook.v1\n"
"""The domain line of a hook file's hash, which covers all bytes of it."""
SHIPPED = Path(__file__).parents[1] / "built_in"
"""Where the smart hooks are that are built in."""

_KEYS = frozenset(
    {"name", "description", "points", "tools", "model", "keeps", "subagents", "copy"}
    | {"use", "options"}
)
_OF_SMART = ("tools", "model", "keeps", "copy")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFile:
    """A hook, as its file was when it was read."""

    name: str
    instructions: str = ""
    """What a smart hook is told; empty where it is code."""
    description: str = ""
    """What it is good for, on one line."""
    points: tuple[HookPoint, ...] | None = None
    """Where it is asked; None: everywhere, and where it is code, where that says."""
    tools: tuple[str, ...] = ()
    """What it may use besides what every hook has."""
    model: str | None = None
    """The full name of its model; None for that of the agent that it watches."""
    keeps: Literal["notes", "all"] = "notes"
    """What it remembers from one question to the next."""
    subagents: bool = True
    """Whether subagents of the agent that it watches get a copy."""
    copy: str = ""
    """What a copy is told besides."""
    use: str | None = None
    """The registered name of the hook that is code."""
    options: Mapping[str, Any] = field(default_factory=dict)
    path: Path
    hash: str
    """BLAKE3 of the file: 64 hex digits."""
    ignored: tuple[str, ...] = ()
    """Members of the front matter that mean nothing here."""

    def made_for(self, watched: Agent) -> Agent:
        """Return this hook, not born yet. Raises ConfigError."""
        hook = self._smart(watched) if self.use is None else self._code(watched, self.use)
        if self.points is not None:
            hook.born_with["points"] = list(self.points)
        if not self.subagents:
            hook.born_with["subagents"] = False
        return hook

    def kind(self, use: str, runtime: AgentRuntime) -> type[Hook]:
        """Return the code that it uses, which can do with its options.

        Raises ConfigError. What runs programs no file gives: a file comes with a
        project, and what it runs would be in no sandbox.
        """
        try:
            kind = hook_kind(use, runtime)
            if not kind.can_restore:
                raise ConfigError(f"{use} runs programs, which no hook file may name")
            options_from(use, kind.Options, self.options)
        except (ConfigError, NameNotFound) as error:
            raise ConfigError(f"{self.path}: {error}") from None
        return kind

    def _code(self, watched: Agent, use: str) -> Agent:
        kind = self.kind(use, watched.runtime)
        return kind(watched.session, runtime=watched.runtime, options=self.options)

    def _smart(self, watched: Agent) -> Agent:
        if not isinstance(watched, ToolAgent):
            raise ConfigError(f"{watched.name} does nothing that a hook could watch")
        runtime = watched.runtime
        if self.model is not None:
            self._check_model(self.model, runtime)
        known = {*ACTIONS, *runtime.world.tools}
        for name in self.tools:
            if name not in known:
                there = ", ".join(sorted(known))
                raise ConfigError(f"{self.path}: no tool {name!r} is here; there is: {there}")
        template = Template(
            name=self.name,
            instructions=self.instructions,
            model=self.model,
            path=self.path,
            hash=self.hash,
        )
        more = {"keeps": self.keeps, "copy": self.copy or None}
        return new_hook(
            watched,
            self.instructions,
            points=self.points,
            tools=self.tools,
            template=template,
            spec=more,
        )

    def _check_model(self, name: str, runtime: AgentRuntime) -> None:
        """Raise ConfigError where there is no such model: better now than when it is asked."""
        try:
            runtime.get_model(name)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookInfo:
    """A hook that can be named, for a person to choose."""

    name: str
    description: str
    smart: bool
    """Whether a model judges; else it is code."""
    path: Path | None = None
    """Its file, where a person wrote one."""
    problem: str = ""
    """Why it cannot be used; empty where it can."""


def _of_file(path: Path) -> HookInfo:
    own = None if path.parent == SHIPPED else path
    try:
        file = read_hook(path)
        if file.use is not None:
            file.kind(file.use, AgentRuntime())
    except ConfigError as error:
        return HookInfo(name=path.stem, description="", smart=True, path=own, problem=str(error))
    return HookInfo(name=file.name, description=file.description, smart=file.use is None, path=own)


def _of_kind(name: str) -> HookInfo:
    kind = get_agent_class(name, AgentRuntime())
    said = (kind.__doc__ or "").strip().split("\n")[0]
    return HookInfo(name=name, description=said, smart=False)


@check_arguments
class HookFiles:
    """Hooks by name: those of files in some folders, then those that are built in."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """Look into these folders whenever a hook is asked for; none of them has to be there."""
        self.folders = tuple(folders)

    def make(self, name: str, watched: Agent) -> Agent:
        """Return a hook for an agent, not born yet; `install(watched, name)` puts it there.

        Raises NameNotFound with the names that there are, ConfigError for one that cannot be used.
        """
        file = self.find(name)
        if file is not None:
            return file.made_for(watched)
        if name not in BUILT_IN and name not in watched.runtime.kinds:
            raise NameNotFound("hook", name, self.names())
        return hook_kind(name, watched.runtime)(watched.session, runtime=watched.runtime)

    def find(self, name: str) -> HookFile | None:
        """Return the file of this name, as it is now; None where there is none.

        Raises ConfigError for one that cannot be used.
        """
        path = self._files().get(name) if NAME.fullmatch(name) else None
        return None if path is None else read_hook(path)

    def known(self) -> list[HookInfo]:
        """Return what there is to choose from, by name."""
        files = self._files()
        rows = [_of_file(path) for path in files.values()]
        rows += [_of_kind(name) for name in BUILT_IN if name not in files]
        return sorted(rows, key=lambda one: one.name)

    def names(self) -> list[str]:
        """Return all names, in order: of files, and of what is built in."""
        return sorted({*self._files(), *BUILT_IN})

    def _files(self) -> dict[str, Path]:
        return files_in([*self.folders, SHIPPED])


def read_hook(path: Path) -> HookFile:
    """Read a hook file. Raises ConfigError, on one line, where it cannot be used."""
    with naming(path):
        page = read_page(path)
        front_matter.check_called(page.front, path.stem)
        front_matter.check_members(page.front, _KEYS)
        known = _checked(page.front)
        told = page.body.strip()
        if known["use"] is None and not told:
            raise Malformed("has no instructions: write them below the front matter")
        if known["use"] is not None and (told or any(key in page.front for key in _OF_SMART)):
            raise Malformed("uses a hook that is code, which has `options` and no instructions")
        if known["use"] is None and known["options"]:
            raise Malformed("has options, which are for a hook that is code: name it with `use`")
    return HookFile(
        name=path.stem,
        instructions=told,
        path=path,
        hash=canonical.hash_bytes(HOOK_FILE, page.data).hex(),
        ignored=tuple(sorted(page.front.keys() - _KEYS)),
        **known,
    )


def _checked(front: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that mean something, as fields of a hook file."""
    keeps, subagents, options = front.get("keeps"), front.get("subagents"), front.get("options")
    if keeps not in (None, "notes", "all"):
        raise Malformed("keeps is `notes` or `all`")
    if not isinstance(subagents, bool | None):
        raise Malformed("subagents is true or false: whether they get a copy")
    if not isinstance(options, dict | None):
        raise Malformed("options is a list of members such as `requests: 5`")
    return {
        "description": front_matter.one_line(front, "description"),
        "points": _points(front),
        "tools": front_matter.names(front, "tools", "read, search") or (),
        "model": front_matter.text(front, "model").strip() or None,
        "keeps": keeps or "notes",
        "subagents": subagents is not False,
        "copy": front_matter.text(front, "copy").strip(),
        "use": front_matter.text(front, "use").strip() or None,
        "options": options or {},
    }


def _points(front: Mapping[str, Any]) -> tuple[HookPoint, ...] | None:
    given = front_matter.names(front, "points", "action, response")
    unknown = [name for name in given or () if name not in POINTS]
    if unknown:
        raise Malformed(f"points are input, action, result and response, not {unknown[0]!r}")
    return cast("tuple[HookPoint, ...] | None", given)
