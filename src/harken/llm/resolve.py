"""Resolution of model names: `PROVIDER/MODEL`, `scripted:FILE`, `replay:SESSION`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from harken.core.arguments import check_arguments, format_existing
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
    """Return the model of this name. Files are relative to `base`, else to the working directory.

    The model's own name is `name`, so a name in a log resolves to the same model. Keys are part of
    `providers`; for a provider with the `api_key` None, its environment variable is read. Raises
    ConfigError for a name of no kind of model, an unknown provider, or a missing key or package of
    a provider; ScriptError or LogError if a file cannot be used.
    """
    kind, _, file = name.partition(":")
    path = (base or Path()) / file
    if kind == "scripted" and file.strip():
        return ScriptedModel.load(path, name=name)
    if kind == "replay" and file.strip():
        return ReplayModel.load(path, name=name)
    provider, slash, model = name.partition("/")
    if not slash or kind in ("scripted", "replay"):
        raise ConfigError(f"model {name!r} not found; a model is {KINDS}")
    if provider not in providers:
        raise ConfigError(_unknown_provider_message(provider, providers))
    if not model.strip():
        raise ConfigError(f"which model of {provider}? Write {provider}/MODEL")
    return _build_provider_model(
        name, model, providers[provider], (prices or Prices()).costs(provider)
    )


def _unknown_provider_message(name: str, providers: Mapping[str, Provider]) -> str:
    existing = format_existing(providers, "providers", typed=name)
    return (
        f"provider {name!r} not found{existing}; "
        f"[providers.{name}] with a base_url in config.toml adds one"
    )


def _build_provider_model(name: str, model: str, provider: Provider, cost: Cost) -> Model:
    from harken.llm.http_model import ModelEndpoint  # noqa: PLC0415 - not for file models

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
    """Return the provider with its key. Raises ConfigError if a required key is missing.

    The command line looks up keys itself. A program that names a model expects that the variable of
    the provider is read, as the provider's SDK does.
    """
    if provider.key_env is None:
        return provider
    if provider.api_key is None:
        provider = replace(provider, api_key=os.environ.get(provider.key_env, ""))
    if not provider.api_key:
        raise ConfigError(f"no key for {provider.name}: set {provider.key_env}")
    return provider


def caching_resolver(
    *,
    base: Path | None = None,
    providers: Mapping[str, Provider] = BUILT_IN,
    prices: Prices | None = None,
) -> ModelResolver:
    """Return a resolver that caches models by name, for one run of agents.

    Scripts are read once, and equal requests of several agents are replayed in recorded order.
    """
    return cache(partial(resolve_model, base=base, providers=providers, prices=prices))
