"""Claude Code files that Harken also reads: agents, skills, commands and hooks.

Files of a project are read only if it is trusted, and commands run only if the user enabled them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harken.agents.command_hooks.config import Hooks, read_settings
from harken.agents.templates import prompt_file
from harken.agents.templates.claude_code import ClaudeAgents
from harken.agents.templates.prompt_file import PromptFiles
from harken.agents.templates.skills import Skills
from harken.config.home import Home
from harken.config.trust import Project
from harken.errors import ConfigError

FOLDER = ".claude"
_FOLDER_VARIABLE = "CLAUDE_CONFIG_DIR"
_SKILLS = "skills"


def load_claude_agents(
    project: Project | None, environ: Mapping[str, str], *, commands: bool
) -> ClaudeAgents:
    """Return the agents of a trusted project, then those of the user.

    commands: whether the commands that an agent has as hooks are run. Raises ConfigError.
    """
    folders = [_user_folder(environ) / "agents"]
    if project is not None and project.trusted:
        folders.insert(0, _project_path(project, FOLDER, "agents"))
    return ClaudeAgents(folders, runs_commands=commands)


def load_skills(project: Project | None, home: Home, environ: Mapping[str, str]) -> Skills:
    """Return the skills of a trusted project, then those of the user. Raises ConfigError."""
    folders = [home.folder / _SKILLS, _user_folder(environ) / _SKILLS]
    if project is not None and project.trusted:
        project_skills = _project_path(project, project.folder.name, _SKILLS)
        folders = [project_skills, _project_path(project, FOLDER, _SKILLS), *folders]
    return Skills(folders)


def commands(project: Project | None, home: Home, environ: Mapping[str, str]) -> PromptFiles:
    """Return the commands of a trusted project, then those of the user. Raises ConfigError."""
    folders = [home.folder / prompt_file.FOLDER, _user_folder(environ) / prompt_file.FOLDER]
    if project is not None and project.trusted:
        project_commands = _project_path(project, project.folder.name, prompt_file.FOLDER)
        folders = [project_commands, _project_path(project, FOLDER, prompt_file.FOLDER), *folders]
    return PromptFiles(folders)


def load_claude_hooks(project: Project | None, environ: Mapping[str, str]) -> Hooks:
    """Return the hooks of the user's settings, then those of a trusted project.

    Raises ConfigError, on one line, if a settings file cannot be used.
    """
    result = read_settings(_user_folder(environ) / "settings.json")
    if project is not None and project.trusted:
        for name in ("settings.json", "settings.local.json"):
            result += read_settings(_project_path(project, FOLDER, name))
    return result


def _user_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's Claude Code files.

    Raises ConfigError for a relative path: it could name a folder of an untrusted project.
    """
    configured = environ.get(_FOLDER_VARIABLE, "").strip()
    folder = Path(configured or Path("~", FOLDER)).expanduser()
    if not folder.is_absolute():
        raise ConfigError(f"{_FOLDER_VARIABLE} is {configured!r}: use an absolute path")
    return folder


def _project_path(project: Project, *names: str) -> Path:
    """Return a path below a project. Raises ConfigError if a link leads out of its folder.

    Also raises it if other users could have written there: skipping the file silently could
    disable a guard.
    """
    path = project.root.joinpath(*names)
    if names[0] == FOLDER and project.claude_obstacle:
        raise ConfigError(f"{project.root / FOLDER} cannot count: {project.claude_obstacle}")
    if path.resolve() != path:
        raise ConfigError(
            f"{path}: links outside its folder are not allowed; copy the target instead"
        )
    return path
