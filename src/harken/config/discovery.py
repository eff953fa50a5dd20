"""Discovery of usable model providers: keys, installed SDKs, and servers on this machine.

Local servers are asked for their models concurrently, with a short timeout. Remote providers are
asked only if the caller requests it. Responses are untrusted input.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from threading import Thread
from time import monotonic
from urllib.parse import urlsplit

import msgspec

from harken.llm.prices import Price, Prices
from harken.llm.providers import Provider

LOCAL_S = 0.5
"""Timeout for the list of models of a local server."""
REMOTE_S = 8.0
MAX_BYTES = 4 << 20
MAX_MODELS = 2000

HasModule = Callable[[str], bool]


class ProviderStatus(msgspec.Struct, frozen=True):
    """A provider, and the steps that are missing before its models can be used."""

    provider: Provider
    missing: tuple[str, ...] = ()
    """The steps to take, a phrase each; empty if nothing is missing."""
    models: tuple[str, ...] = ()
    """The models that it lists, by its own names; empty if it was not asked."""

    @property
    def is_ready(self) -> bool:
        """Whether its models can be used now."""
        return not self.missing


def is_installed(module: str) -> bool:
    """Whether a module could be imported. It is not imported."""
    return importlib.util.find_spec(module) is not None


def discover(
    providers: Iterable[Provider], *, remote: bool = False, has: HasModule = is_installed
) -> list[ProviderStatus]:
    """Return the status of these providers, in their order.

    Local servers are asked for their models; with `remote`, also all providers that have a key.
    """
    all_providers = list(providers)
    reachable = [
        provider
        for provider in all_providers
        if (provider.local or remote) and not _lacks_key(provider)
    ]
    answers: dict[str, list[str] | None] = dict.fromkeys(provider.name for provider in reachable)
    answers.update(fetch_model_lists(reachable))
    return [_provider_status(provider, answers, has) for provider in all_providers]


def _lacks_key(provider: Provider) -> bool:
    return provider.key_env is not None and not provider.api_key


def _provider_status(
    provider: Provider, answers: Mapping[str, list[str] | None], has: HasModule
) -> ProviderStatus:
    """Return a provider's status. `answers` maps each asked provider to its models, or None."""
    models = answers.get(provider.name)
    is_silent = provider.name in answers and models is None
    missing: list[str] = []
    if _lacks_key(provider):
        missing.append(f"set {provider.key_env}")
    if is_silent:
        advice = (
            "not running: start it" if provider.local else "the server returned no list of models"
        )
        missing.append(f"{advice} at {provider.base_url}")
    elif not has(provider.extra):
        missing.append(f"pip install 'harken[{provider.extra}]'")
    return ProviderStatus(provider, tuple(missing), tuple(models or ()))


def fetch_model_lists(providers: Iterable[Provider]) -> dict[str, list[str]]:
    """Fetch the model lists of providers concurrently. Omit those that do not respond in time."""
    answers: dict[str, list[str]] = {}

    def ask(provider: Provider, limit_s: float) -> None:
        models = list_models(provider, timeout_s=limit_s)
        if models is not None:
            answers[provider.name] = models

    waiting: list[tuple[Thread, float]] = []
    for provider in providers:
        limit_s = LOCAL_S if provider.local else REMOTE_S
        # A pool would join its threads at exit; a daemon thread that still waits is abandoned.
        thread = Thread(target=ask, args=(provider, limit_s), daemon=True)
        thread.start()
        waiting.append((thread, monotonic() + limit_s))
    for thread, until in waiting:
        thread.join(max(0.0, until - monotonic()))
    return dict(answers)


def list_models(provider: Provider, *, timeout_s: float) -> list[str] | None:
    """Return the names of a provider's models. Return None if the list cannot be read.

    The key goes to the provider's own address and nowhere else: no proxy, no redirect.
    """
    import http.client  # slow to import, and only this function needs it

    try:
        parts = urlsplit(provider.base_url.rstrip("/"))
        path, headers = _list_request(provider, parts.path)
        is_https = parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            data = response.read(MAX_BYTES) if response.status == 200 else b""
        finally:
            connection.close()
        return _parse_model_names(json.loads(data))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None


def _list_request(provider: Provider, path: str) -> tuple[str, dict[str, str]]:
    """Return the path of the list of models, and the headers of the request."""
    headers = {"Accept": "application/json", "User-Agent": "harken"}
    if provider.protocol == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
        if provider.api_key:
            headers["x-api-key"] = provider.api_key
        return f"{path}/v1/models?limit=1000", headers
    if provider.api_key:
        headers["Authorization"] = f"Bearer {provider.api_key}"
    return f"{path}/models", headers


def _parse_model_names(answer: object) -> list[str] | None:
    """Return the typeable names in a list of models. Return None if the value is no such list."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        return None
    names = [row.get("id") for row in rows[:MAX_MODELS] if isinstance(row, dict)]
    plain = [name for name in names if isinstance(name, str) and _is_plain(name)]
    return list(dict.fromkeys(name.removeprefix("models/") for name in plain))


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= 200 and name.isascii() and name.isprintable() and " " not in name


SUGGESTED = {
    "anthropic": "claude-opus-5-5",
    "openai": "gpt-6.2-sol",
    "gemini": "gemini-3.8-flash",
    "xai": "grok-4.7",
}
"""Provider -> the default model that it recommends for most work, as of 2026-11-21."""


class ModelChoice(msgspec.Struct, frozen=True):
    """A default model, and the steps that are missing before it can be used."""

    model: str
    missing: tuple[str, ...] = ()


def choose_model(statuses: Sequence[ProviderStatus]) -> ModelChoice | None:
    """Return a default model: of the first ready provider, else of the first that has a key.

    Return None if no provider is usable.
    """
    for status in sorted(statuses, key=lambda status: not status.is_ready):
        name = status.provider.name
        model = next(filter(can_chat, status.models), None) or SUGGESTED.get(name)
        usable = (
            status.is_ready or (status.provider.local and status.models) or status.provider.api_key
        )
        if usable and model:
            return ModelChoice(f"{name}/{model}", status.missing)
    return None


def can_chat(model: str) -> bool:
    """Whether a model can chat, judged by its name: local servers also list embedding models."""
    return not re.search(r"embed|rerank|whisper|bge-|minilm", model, re.IGNORECASE)


class ModelOffer(msgspec.Struct, frozen=True):
    """A selectable model, with its price if it is known."""

    name: str
    """Its full name."""
    price: Price | None


def list_offers(status: ProviderStatus, prices: Prices, day: date) -> list[ModelOffer]:
    """Return the models of a provider: those that it lists, else those that have a price."""
    name = status.provider.name
    if status.models:
        full_names = [f"{name}/{model}" for model in status.models]
        return [ModelOffer(model, prices.price(model, day)) for model in full_names]
    return [ModelOffer(price.model, price) for price in prices.list_prices(name, day)]
