"""`harken trust`: trust the configuration of a project after it was shown."""

from __future__ import annotations

from pathlib import Path

import click

from harken.cli.options.home import home_option, json_option
from harken.config import trust_summary
from harken.config.file import read_config
from harken.config.home import CONFIG, Home, current_folder
from harken.config.trust import CLAUDE, FOLDER, INSTRUCTIONS, Trust
from harken.config.trust_summary import escape_line
from harken.errors import ConfigError
from harken.terminal.stdin import stdin_is_interactive, take_type_ahead
from harken.terminal.text import print_json, print_text, program_name
from harken.world.mcp.server_config import MCP_JSON

MAX_SHOWN = 20


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--remove", is_flag=True, help="Revoke the trust.")
@click.option("--list", "listed", is_flag=True, help="List the trusted folders.")
@click.option(
    "--dry-run", is_flag=True, help="Print the configuration of the project, without trusting it."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@home_option
def command(
    folder: Path | None,
    remove: bool,
    listed: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    home: Home,
) -> None:
    """Trust a project: use the configuration, agents, hooks and skills in its .harken/.

    This includes its .mcp.json, and the agents, skills and commands in its .claude/. Its AGENTS.md
    is always part of the system prompt; chats show a notice until the project is trusted. The
    command shows which programs run, which hooks are installed, and which tools agents get; in a
    terminal it asks for confirmation.

    FOLDER is the project or a folder in it (default: the current folder).
    """
    trust = Trust(home)
    start = folder or current_folder()
    if listed:
        show_list(trust, as_json=as_json)
    elif remove:
        _remove(trust, start, as_json=as_json)
    else:
        _trust(
            trust, start, as_json=as_json, dry_run=dry_run, asks=not yes and stdin_is_interactive()
        )


def _remove(trust: Trust, start: Path, *, as_json: bool) -> None:
    project = trust.find_project(start)
    root = start.resolve() if project is None else project.root
    removed = trust.distrust(start.absolute()) or trust.distrust(root)
    if not removed:
        raise ConfigError(
            f"{root} is not trusted; `{program_name()} trust --list` lists trusted folders"
        )
    if as_json:
        print_json({"folder": str(root), "state": "distrusted"})
    else:
        print_text(f"Distrusted: {escape_line(str(root))}")


def _trust(trust: Trust, start: Path, *, as_json: bool, dry_run: bool, asks: bool) -> None:
    """Show the configuration of a project, and trust it if the user agrees."""
    if not start.is_dir():
        raise ConfigError(f"{start}: no such folder")
    project = trust.find_project(start)
    if project is None:
        raise ConfigError(
            f"{start.resolve()}: no {FOLDER}/, {MCP_JSON}, {CLAUDE}/ or "
            f"{INSTRUCTIONS} in this folder or its parents"
        )
    if not dry_run:
        trust.check(project.root)
    root, folder = project.root, project.folder
    hooks = read_config(trust.home.folder / CONFIG).hooks
    summary = trust_summary.list_project_files(root, folder, root / MCP_JSON)
    says = trust_summary.summary_lines(
        root,
        folder,
        project.config,
        runs_commands=hooks.claude_settings,
        may_allow=hooks.claude_may_allow,
    )
    if as_json:
        if not dry_run:
            trust.trust(root)
        state = "trusted" if trust.is_trusted(root) else "untrusted"
        print_json({"folder": str(root), "state": state, "files": summary, "says": says})
        return
    heading = "Already trusted" if project.trusted else "Not trusted yet"
    if not dry_run and not asks:
        trust.trust(root)
        heading = "Trusted"
    print_text(f"{heading}: {escape_line(str(root))}")
    _show(summary, says)
    if asks and not dry_run and not project.trusted:
        _ask(trust, root)


def _show(files: list[str], says: list[str]) -> None:
    for path in files[:MAX_SHOWN]:
        print_text(f"  {escape_line(path)}")
    if len(files) > MAX_SHOWN:
        print_text(f"  and {len(files) - MAX_SHOWN} more")
    for line in says:
        print_text(f"  setting: {line}")


def _ask(trust: Trust, root: Path) -> None:
    """Trust a folder if the user agrees."""
    click.echo("The trust includes later changes of these files, such as by a git pull.", err=True)
    take_type_ahead()  # Type-ahead is not an answer.
    if click.confirm("Trust it?", default=False, err=True):
        trust.trust(root)
        print_text(f"Trusted: {escape_line(str(root))}")
    else:
        print_text("Not trusted: its configuration is ignored.")


def show_list(trust: Trust, *, as_json: bool) -> None:
    """Print the trusted folders."""
    folders = [str(folder) for folder in trust.folders()]
    if as_json:
        print_json(folders)
    elif not folders:
        click.echo(
            f"No trusted folders. Run `{program_name()} trust` in a project to trust it.", err=True
        )
    for folder in [] if as_json else folders:
        print_text(folder)
