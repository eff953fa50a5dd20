"""`harken init`: write a first `config.toml` from the discovered providers, without questions."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import click

from harken.cli.commands.models import shown_path
from harken.cli.options.home import home_option, json_option
from harken.config.discovery import SUGGESTED, ModelChoice, ProviderStatus, choose_model, discover
from harken.config.home import CONFIG, Home, environment
from harken.config.settings import add_keys, load_settings
from harken.errors import ConfigError
from harken.llm.providers import BUILT_IN, Provider
from harken.terminal.text import escape_control_characters, print_json, print_text, program_name

HEAD = """\
# Defaults of Harken. Every entry is optional.
# API keys are read from the environment, never from this file.

# The model of new sessions. `harken models` lists those that can be used;
# HARKEN_MODEL and --model take precedence.
"""
REST = """
# What agents may do without asking you: "ask" (reading only), "edits" (also to
# edit files here), "all" (anything), "plan" (read only; nothing else is allowed).
# permission = "ask"

# [permissions]
# allow = ["bash(git status*)"]
# deny = ["bash(rm *)"]

# Request parameters of one model; [parameters] sets them for all models, but few
# are accepted by every one.
# [models."anthropic/claude-opus-5-5".parameters]
# max_tokens = 16000

# A server with the OpenAI or Anthropic protocol. `key_env` is the name of the
# variable that holds its key.
# [providers.work]
# base_url = "https://llm.example.org/v1"
# protocol = "openai"
# key_env = "WORK_API_KEY"

# What a model costs, in USD per million tokens, if Harken does not know it.
# [prices."work/large"]
# input = 1.0
# output = 4.0

# Additional folders for tools.
# [tools]
# allow_folders = ["~/notes"]
"""


@click.command()
@click.option(
    "--force",
    is_flag=True,
    help="Replace an existing config.toml, after a backup in the same folder.",
)
@json_option
@home_option
def command(force: bool, as_json: bool, home: Home) -> None:
    """Write an initial config.toml for the API keys and model servers on this machine."""
    file = home.folder / CONFIG
    statuses = discover(_providers(home, force=force))
    choice = choose_model(statuses)
    text = config_text(choice)
    exists = os.path.lexists(file)
    backup = write(home, file, text) if force or not exists else None
    if as_json:
        row = {"file": str(file), "written": force or not exists, "model": choice and choice.model}
        print_json(
            {**row, "ready": [status.provider.name for status in statuses if status.is_ready]}
        )
        return
    show(statuses)
    click.echo()
    if exists and not force:
        print_text(f"{shown_path(str(file))} exists and was not changed (--force replaces it).")
        print_text("The new content would be:\n")
        click.echo(text, nl=False)
        return
    print_text(
        f"Wrote {shown_path(str(file))}" + (f" (previous file: {backup.name})." if backup else ".")
    )
    print_text(what_next(choice, [status.provider.name for status in statuses if status.is_ready]))


def _providers(home: Home, *, force: bool) -> list[Provider]:
    """Return the providers to check: also those of an existing file, unless it is replaced."""
    if force:
        return list(add_keys(BUILT_IN, environment()).values())
    return list(load_settings(home).providers.values())


def config_text(choice: ModelChoice | None) -> str:
    """Return the file, every line of it either a comment or the model."""
    model = ModelChoice(f"anthropic/{SUGGESTED['anthropic']}") if choice is None else choice
    line = f"model = {toml_text(model.model)}\n"
    return HEAD + ("# " if choice is None else "") + line + REST


def toml_text(text: str) -> str:
    r"""Return a text as TOML writes it.

    >>> print(toml_text('a "b"' + chr(127)))
    "a \"b\"\u007f"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write(home: Home, file: Path, text: str) -> Path | None:
    """Write the file, for its owner only; return the backup of an old one, if any."""
    home.create_folders()
    backup = None
    try:
        if os.path.lexists(file):
            names = (file.with_name(f"{CONFIG}.{n}") for n in range(1, 1000))
            backup = next(name for name in names if not os.path.lexists(name))
            file.rename(backup)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            new.write(text)
    except OSError as error:
        raise ConfigError(f"{file}: write failed: {error.strerror}") from None
    return backup


def show(statuses: Sequence[ProviderStatus]) -> None:
    """Print the discovered providers. Missing ones are not printed."""
    visible = [
        status for status in statuses if status.is_ready or status.models or status.provider.api_key
    ]
    if not visible:
        print_text("No API key in the environment, and no model server on this machine.")
        return
    click.secho("Found", bold=True)
    width = max(len(status.provider.name) for status in visible)
    for status in visible:
        source = status.provider.base_url if status.provider.local else str(status.provider.key_env)
        count = f", {len(status.models)} models" if status.models else ""
        lacks = f"; missing: {'; '.join(status.missing)}" if status.missing else ""
        print_text(f"  {status.provider.name:<{width}}  {source}{count}{lacks}")


def what_next(choice: ModelChoice | None, ready: Sequence[str]) -> str:
    """Return the next step for the user. `ready`: usable providers without a known model."""
    if choice is None and ready:
        return (
            f"No model is configured: `{program_name()} models {ready[0]} --remote` "
            f"lists the models of {ready[0]}; write one into the file."
        )
    if choice is None:
        return (
            "No model is configured. Set a key, such as ANTHROPIC_API_KEY or "
            "OPENAI_API_KEY, or start a server such as Ollama; then run "
            f"`{program_name()} init --force`."
        )
    first = f"{'; '.join(choice.missing)}; then " if choice.missing else ""
    model = escape_control_characters(choice.model)
    return f"New sessions use {model}. Next: {first}`{program_name()} chat`"
