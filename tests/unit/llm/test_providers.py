"""Providers of models, and the protection of their keys."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from harken.core.loopback import is_loopback
from harken.llm.providers import BUILT_IN, Provider


@pytest.mark.parametrize("provider", BUILT_IN.values(), ids=lambda provider: provider.name)
def test_provider_is_local_or_requires_a_key_and_tls(provider: Provider) -> None:
    assert BUILT_IN[provider.name] is provider
    assert provider.api_key is None
    assert provider.extra in ("anthropic", "openai")
    scheme = urlsplit(provider.base_url).scheme
    if provider.local:
        assert (provider.key_env, scheme) == (None, "http")
    else:
        assert (provider.key_env, scheme) == (f"{provider.name.upper()}_API_KEY", "https")


def test_well_known_providers_are_registered() -> None:
    assert {"anthropic", "openai", "gemini", "openrouter", "ollama", "llamacpp"} <= BUILT_IN.keys()


def test_key_is_never_shown() -> None:
    provider = replace(BUILT_IN["openai"], api_key="sk-secret")
    assert "secret" not in f"{provider!r}{provider}"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("127.0.0.1.example.org", False),
        ("localhost.", False),
        ("", False),
    ],
)
def test_local_means_only_this_machine(host: str, local: bool) -> None:
    assert is_loopback(host) is local
