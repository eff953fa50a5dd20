"""The tools with which agents read the web, as far as it is configured and installed."""

from __future__ import annotations

from harken.agents.websearch import websearch_tool
from harken.cli.config_file import WebTable
from harken.cli.home import environment
from harken.errors import ConfigError
from harken.world.tool import Tool
from harken.world.web.address import Reach
from harken.world.web.download import Downloads, is_installed
from harken.world.web.fetch import fetch_tool
from harken.world.web.search import BRAVE, Brave, SearchProvider, Searxng
from harken.world.web.web import Web


def web_tools(table: WebTable) -> tuple[list[Tool], Web | None]:
    """Return `fetch`, and `websearch` where somebody is configured to find pages, and its web.

    Nothing where the extra `web` is not installed. Raises ConfigError where a key is missing.
    """
    provider = provider_of(table)
    if not is_installed():
        return [], None
    downloads = Downloads(Reach(tuple(table.allow)))
    if provider is None:
        return [fetch_tool(downloads)], None
    return [fetch_tool(downloads), websearch_tool()], Web(downloads, provider)


def provider_of(table: WebTable) -> SearchProvider | None:
    """Return who finds pages; None: nobody is configured to. Raises ConfigError."""
    if table.search == "searxng" and table.url is not None:
        return Searxng(table.url)
    if table.search == "brave" and table.key_env is not None:
        key = environment().get(table.key_env, "").strip()
        if not key:
            raise ConfigError(f"the search needs a key: set the variable {table.key_env}")
        return Brave(key, table.url or BRAVE)
    return None
