"""`Web`: what a world knows of the web."""

from __future__ import annotations

from dataclasses import dataclass

from harken.world.web.download import Downloads
from harken.world.web.search import SearchProvider


@dataclass(frozen=True, slots=True)
class Web:
    """Who fetches pages, and who finds them."""

    downloads: Downloads
    search: SearchProvider
