"""Providers: who answers for a model, in which protocol, and where the key comes from.

A provider is data. Whoever calls gives the key as a value: nothing here reads an environment, and
no key is ever shown.
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
"""Which requests a provider takes: Anthropic's Messages, or OpenAI's Chat Completions."""


@check_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Somebody who answers for models."""

    name: str
    """What stands before the `/` in a model's name."""
    protocol: Protocol = "openai"
    base_url: str
    key_env: str | None = None
    """The variable that holds the key by custom; None where none is needed."""
    api_key: str | None = field(default=None, repr=False)
    """The key; None where nobody looked for one, empty where none was found."""
    omit: tuple[str, ...] = ()
    """Parameters of a request that it refuses: they are never sent, whoever asks for them."""
    short_ids: bool = False
    """Whether it takes no ids of calls but such of nine letters and digits."""

    @property
    def extra(self) -> str:
        """The extra of this package that brings the SDK: `pip install 'harken[EXTRA]'`."""
        return self.protocol

    @property
    def local(self) -> bool:
        """Whether it is this machine: no key, no bill."""
        return is_loopback(urlsplit(self.base_url).hostname or "")


_TABLE = [
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
        omit=("stream_options",),  # a 422; the usage comes without it
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

BUILT_IN: Mapping[str, Provider] = MappingProxyType({one.name: one for one in _TABLE})
"""The providers that are known, by name; those that bill stand first."""
