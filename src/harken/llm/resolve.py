"""From a model's name to the model: `scripted:FILE`, `replay:SESSION`."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from harken.errors import ConfigError
from harken.llm.base import Model, ModelResolver
from harken.llm.replay import ReplayModel
from harken.llm.scripted import ScriptedModel

KINDS = "`scripted:FILE` (rules in YAML), `replay:SESSION` (a recorded log)"


def resolve_model(name: str, *, base: Path | None = None) -> Model:
    """Return the model of this name; files are found from `base`, else from where we are.

    The model's own name is `name`, so a log that holds it leads back here. Raises ConfigError for
    a name that says no kind of model; ScriptError or LogError where its file cannot be used.
    """
    kind, _, file = name.partition(":")
    if kind not in ("scripted", "replay") or not file.strip():
        raise ConfigError(
            f"there is no model {name!r}; a model is {KINDS}; those of providers come as extras"
        )
    path = (base or Path()) / file
    if kind == "scripted":
        return ScriptedModel.load(path, name=name)
    return ReplayModel.load(path, name=name)


def one_per_name(*, base: Path | None = None) -> ModelResolver:
    """Return a resolver that gives one and the same model for a name, for one run of agents.

    Scripts are read once, and equal requests of several agents are replayed in recorded order.
    """
    return cache(partial(resolve_model, base=base))
