"""From a model's name to the model: `PROVIDER/MODEL`, `scripted:FILE`, `replay:SESSION`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from harken.core.arguments import check_arguments, nearest
from harken.errors import ConfigError
from harken.llm.base import Model, ModelResolver
from harken.llm.prices import Cost, Prices
from harken.llm.providers import BUILT_IN, Provider
from harken.llm.replay import ReplayModel
from harken.llm.scripted import ScriptedModel

KINDS = (
    "`scripted:FILE` (rules in YAML), `replay:SESSION` (a recorded log), "
    "or `PROVIDER/MODEL` such as anthropic/claude-opus-5-5"
)


@check_arguments
def resolve_model(
    name: str,
    *,
    base: Path | None = None,
    providers: Mapping[str, Provider] = BUILT_IN,
    prices: Prices | None = None,
) -> Model:
    """Return the model of this name; files are found from `base`, else from where we are.

    The model's own name is `name`, so a log that holds it leads back here. A key comes with
    `providers`; a provider whose `api_key` is None is given the one in its environment variable.
    Raises ConfigError for a name that says no kind of model, a provider that is not known, a key
    or the package of a provider that is missing; ScriptError or LogError where a file cannot be
    used.
    """
    kind, _, file = name.partition(":")
    path = (base or Path()) / file
    if kind == "scripted" and file.strip():
        return ScriptedModel.load(path, name=name)
    if kind == "replay" and file.strip():
        return ReplayModel.load(path, name=name)
    before, slash, model = name.partition("/")
    if not slash or kind in ("scripted", "replay"):
        raise ConfigError(f"there is no model {name!r}; a model is {KINDS}")
    if before not in providers:
        raise ConfigError(_unknown(before, providers))
    if not model.strip():
        raise ConfigError(f"which model of {before}? Write {before}/MODEL")
    return _of_provider(name, model, providers[before], (prices or Prices()).costs(before))


def _unknown(name: str, providers: Mapping[str, Provider]) -> str:
    there = ", ".join(providers) or "none"
    return (
        f"there is no provider {name!r}{nearest(name, providers)}; there is: {there}; "
        f"[providers.{name}] with a base_url in config.toml adds one"
    )


def _of_provider(name: str, model: str, provider: Provider, cost: Cost) -> Model:
    from harken.llm.http_model import ModelEndpoint  # noqa: PLC0415 - models in files need none of it

    provider = _with_key(provider)
    if find_spec(provider.extra) is None:
        raise ConfigError(
            f"{provider.name} needs the package {provider.extra}: "
            f"pip install 'harken[{provider.extra}]'"
        )
    endpoint = ModelEndpoint(
        base_url=provider.base_url,
        api_key=provider.api_key,
        key_name=provider.key_env,
        omit=provider.omit,
        short_ids=provider.short_ids,
    )
    if provider.protocol == "anthropic":
        from harken.llm.anthropic import AnthropicModel  # noqa: PLC0415 - as above

        return AnthropicModel(name, model, endpoint=endpoint, cost=cost)
    from harken.llm.openai import OpenAIModel  # noqa: PLC0415 - as above

    return OpenAIModel(name, model, endpoint=endpoint, cost=cost)


def _with_key(provider: Provider) -> Provider:
    """Return the provider with its key. Raises ConfigError if it needs one and there is none.

    The command line looks for keys itself. A program that names a model expects the variable of
    the provider to be read, as the provider's SDK does.
    """
    if provider.key_env is None:
        return provider
    if provider.api_key is None:
        provider = replace(provider, api_key=os.environ.get(provider.key_env, ""))
    if not provider.api_key:
        raise ConfigError(f"no key for {provider.name}: set {provider.key_env}")
    return provider


def one_per_name(
    *,
    base: Path | None = None,
    providers: Mapping[str, Provider] = BUILT_IN,
    prices: Prices | None = None,
) -> ModelResolver:
    """Return a resolver that gives one and the same model for a name, for one run of agents.

    Scripts are read once, and equal requests of several agents are replayed in recorded order.
    """
    return cache(partial(resolve_model, base=base, providers=providers, prices=prices))
