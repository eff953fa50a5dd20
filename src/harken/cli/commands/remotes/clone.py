"""`harken clone`: make a home with everything that a remote has."""

from __future__ import annotations

from pathlib import Path

import click

from harken.cli.commands.remotes.pull import make_puller
from harken.cli.commands.remotes.report import ProgressLines, report
from harken.cli.commands.remotes.token import read_given_token, token_option
from harken.cli.commands.remotes.transfer import open_transfer
from harken.cli.options.home import home_option, json_option
from harken.config.home import CONFIG, Home
from harken.core.canonical import to_json_line
from harken.errors import ConfigError
from harken.remotes.pull import PullOptions
from harken.remotes.registry import DEFAULT, Remote, Remotes
from harken.world.private_file import replace_file


@click.command("clone")
@click.argument("url")
@click.argument("folder", metavar="[HOME]", required=False, type=click.Path(path_type=Path))
@token_option
@click.option(
    "--lazy", is_flag=True, help="Copy the logs only, and read commits from the remote on demand."
)
@json_option
@home_option
def command(
    url: str, folder: Path | None, token_file: Path | None, lazy: bool, as_json: bool, home: Home
) -> int:
    """Clone the home that a service serves into a new HOME, with the remote `origin`.

    An interrupted clone continues when it is run again.
    """
    target_home = home if folder is None else Home(str(folder))
    target_home.check_folder()
    remote = _prepare(target_home, url, read_given_token(token_file), is_lazy=lazy)
    with open_transfer(target_home, remote) as transfer, ProgressLines("Cloning") as progress:
        puller = make_puller(
            target_home, transfer, PullOptions(logs_only=transfer.is_lazy, is_clone=True)
        )
        puller.on_progress = progress.on_progress
        result = puller.pull_all()
    return report(result, remote, f"cloned into {target_home.folder}", as_json=as_json)


def _prepare(home: Home, url: str, token: str | None, *, is_lazy: bool) -> Remote:
    """Record the remote in a new home, or find it after an interrupted clone.

    Raises ConfigError if the home has other content.
    """
    remotes = Remotes(home.remotes_folder)
    remote = remotes.find(DEFAULT)
    if remote is not None and remote.url == url:
        if token is not None:
            remotes.remove(DEFAULT)
            return remotes.add(DEFAULT, url, token=token)
        return remote
    if remote is not None or home.store_file.exists() or home.list_logs():
        raise ConfigError(
            f"{home.folder}: has content already; clone into a new folder, or use `harken remote "
            f"add {DEFAULT} URL` and `harken pull`"
        )
    config = home.folder / CONFIG
    if is_lazy and config.exists():
        raise ConfigError(f"{config}: exists; set [store] backing = URL there, and pull")
    home.create_folders()
    remote = remotes.add(DEFAULT, url, token=token)
    if is_lazy:
        text = b"[store]\nbacking = " + to_json_line(url) + b"\n"
        replace_file(config, text)
    return remote
