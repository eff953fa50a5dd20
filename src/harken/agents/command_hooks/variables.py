"""Variables that commands set for the programs that agents run: where they are kept.

As long as the program runs; see `environment` for how they come there.
"""

from __future__ import annotations

from collections.abc import Mapping

from harken.world.world import World

_SET = "environment that hooks set"


def add(world: World, variables: Mapping[str, str]) -> None:
    """Keep some more."""
    world.variables.setdefault(_SET, {}).update(variables)


def kept_in(world: World) -> Mapping[str, str]:
    """Return what was kept."""
    found: Mapping[str, str] = world.variables.get(_SET, {})
    return found
