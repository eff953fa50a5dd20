"""The form of `harken ctx` commands: they get the open store and a resolver of names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from harken.cli.options.home import home_option, json_option
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.config.store import open_configured_store, open_or_create_store


def make_store_command(function: Callable[..., None], *, creates: bool = False) -> click.Command:
    """Return a command of a function, which also gets the open store and a name resolver.

    creates: whether the store is created if it does not exist.
    """
    open_store = open_or_create_store if creates else open_configured_store

    @wraps(function)
    def run(home: Home, **arguments: Any) -> None:
        if creates:
            home.create_folders()
        with open_store(home) as store:
            function(store, NameResolver(home, store), **arguments)

    name = function.__name__.removesuffix("_command")
    return click.command(name)(json_option(home_option(run)))
