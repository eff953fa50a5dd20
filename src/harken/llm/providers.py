"""Providers of models: their protocols, base URLs and keys.

A provider is data. The caller passes the key as a value: this module reads no environment variable,
and no key is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from harken.core.arguments import check_arguments
from harken.core.loopback import is_loopback

Protocol: TypeAlias = Literal["anthropic", "openai"]
"""The kind of requests: Anthropic's Messages, or OpenAI's Chat Completions."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A service that answers requests to models."""

    name: str
    """The part of a model's name before the `/`."""
    protocol: Protocol = "openai"
    base_url: str
    key_env: str | None = None
    """The conventional environment variable of the key. None if no key is required."""
    api_key: str | None = field(default=None, repr=False)
    """The key. None if it was not looked up, an empty string if none was found."""
    omit: tuple[str, ...] = ()
    """Parameters that the provider refuses and that are never sent."""
    short_ids: bool = False
    """Whether the provider accepts only call ids of nine letters and digits."""

    @property
    def extra(self) -> str:
        """The extra of this package that installs the SDK: `pip install 'harken[EXTRA]'`."""
        return self.protocol

    @property
    def local(self) -> bool:
        """Whether the provider runs on this machine, without key and bill."""
        return is_loopback(urlsplit(self.base_url).hostname or "")


_PROVIDERS = [
    Provider(
        name="anthropic",
        protocol="anthropic",
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
    ),
    Provider(name="openai", base_url="https://api.openai.com/v1", key_env="OPENAI_API_KEY"),
    Provider(
        name="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
        key_env="GEMINI_API_KEY",
    ),
    Provider(name="xai", base_url="https://api.x.ai/v1", key_env="XAI_API_KEY"),
    Provider(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key_env="MISTRAL_API_KEY",
        omit=("stream_options",),  # It causes a 422; the usage is sent without it.
        short_ids=True,
    ),
    Provider(name="deepseek", base_url="https://api.deepseek.com/v1", key_env="DEEPSEEK_API_KEY"),
    Provider(name="groq", base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY"),
    Provider(
        name="openrouter", base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY"
    ),
    Provider(name="ollama", base_url="http://localhost:11434/v1"),
    Provider(name="lmstudio", base_url="http://localhost:1234/v1"),
    Provider(name="vllm", base_url="http://localhost:8000/v1"),
    Provider(name="llamacpp", base_url="http://localhost:8080/v1"),
]

BUILT_IN: Mapping[str, Provider] = MappingProxyType(
    {provider.name: provider for provider in _PROVIDERS}
)
"""The built-in providers by name; those that bill stand first."""
