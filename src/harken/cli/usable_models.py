"""Models that can be used now, for a user who chooses one."""

from __future__ import annotations

from datetime import UTC, datetime

from harken.cli.discovery import can_chat, discover, offers
from harken.cli.settings import Settings

MODELS_OF_PROVIDER = 9
"""How many models of each provider `/model` lists."""


def list_models(settings: Settings) -> list[str]:
    """Return names of models that can be used now, the configured one first."""
    day = datetime.now(UTC).date()
    names = [settings.model] if settings.model is not None else []
    for provider in discover(settings.providers.values()):
        if provider.ready:
            offered = [offer.name for offer in offers(provider, settings.prices, day)]
            names += [name for name in offered if can_chat(name)][:MODELS_OF_PROVIDER]
    return list(dict.fromkeys(names))
