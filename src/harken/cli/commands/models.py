"""`harken models`: the usable models, the requirements of others, and the prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from harken.cli.options.home import home_option, json_option
from harken.config.discovery import ModelOffer, ProviderStatus, discover, list_offers
from harken.config.home import Home
from harken.config.settings import Settings, load_settings
from harken.errors import NameNotFound
from harken.llm.prices import Price
from harken.terminal.text import escape_control_characters, print_json, print_text, program_name

SHOWN = 6
"""The number of models of a provider in the list of all providers."""


@click.command()
@click.argument("provider", required=False)
@click.option("--remote", is_flag=True, help="Query remote providers, too.")
@json_option
@home_option
def command(provider: str | None, remote: bool, as_json: bool, home: Home) -> None:
    """List the usable models, and the missing keys of other providers.

    PROVIDER shows details of one. Without --remote, only servers on this machine are queried.
    """
    settings = load_settings(home)
    for note in settings.notes:
        click.echo(escape_control_characters(note), err=True)
    if provider is not None and provider not in settings.providers:
        raise NameNotFound("provider", provider, settings.providers)
    providers = [settings.providers[provider]] if provider else list(settings.providers.values())
    statuses = discover(providers, remote=remote)
    today = datetime.now(UTC).date()
    if as_json:
        print_json(describe_providers(statuses, settings, today))
    else:
        show(statuses, settings, today, limit=None if provider else SHOWN)


def describe_providers(
    statuses: Iterable[ProviderStatus], settings: Settings, day: date
) -> dict[str, Any]:
    """Return the providers and models as JSON values."""
    return {
        "model": settings.model,
        "model_from": settings.model_from or None,
        "providers": [
            {
                "name": status.provider.name,
                "protocol": status.provider.protocol,
                "base_url": status.provider.base_url,
                "local": status.provider.local,
                "ready": status.is_ready,
                "missing": list(status.missing),
                "models": [_row(offer) for offer in list_offers(status, settings.prices, day)],
            }
            for status in statuses
        ],
    }


def _row(offer: ModelOffer) -> dict[str, Any]:
    names = ("input", "output", "cache_read", "cache_write")
    rates = None if offer.price is None else {name: getattr(offer.price, name) for name in names}
    return {"name": offer.name, "usd_per_million_tokens": rates}


def show(
    statuses: Sequence[ProviderStatus], settings: Settings, day: date, *, limit: int | None
) -> None:
    """Print usable models, then the requirements of others; without a limit all known models."""
    say_model(settings, statuses)
    offers_by_name = {
        status.provider.name: list_offers(status, settings.prices, day) for status in statuses
    }
    ready = [
        status
        for status in statuses
        if status.is_ready or (limit is None and offers_by_name[status.provider.name])
    ]
    if ready:
        visible = [
            offer for status in ready for offer in offers_by_name[status.provider.name][:limit]
        ]
        width = max([len(offer.name) for offer in visible] + [24])
        click.echo()
        title = "Ready" if limit is not None or ready[0].is_ready else "Known"
        _title(f"{title:<{width + 2}}", "  USD per million tokens, in / out")
        for status in ready:
            _show_offers(status, offers_by_name[status.provider.name], limit=limit, width=width)
    waiting = [status for status in statuses if not status.is_ready]
    if waiting:
        click.echo()
        _title("Not ready")
        width = max(len(status.provider.name) for status in waiting)
        for status in waiting:
            print_text(f"  {status.provider.name:<{width}}  {'; '.join(status.missing)}")


def say_model(settings: Settings, statuses: Sequence[ProviderStatus]) -> None:
    """Print the model of a new session, and its missing requirements."""
    if settings.model is None:
        print_text(f"No model is configured: run `{program_name()} init`, or pass --model.")
        return
    model = click.style(escape_control_characters(settings.model), bold=True)
    source = escape_control_characters(shown_path(settings.model_from))
    click.echo(f"New sessions use {model} (from {source}).")
    provider, slash, _ = settings.model.partition("/")
    if slash and ":" not in provider and provider not in settings.providers:
        print_text(f"Provider {provider!r} not found: check the name, or add it to config.toml.")
    for status in statuses:
        if status.provider.name == provider and not status.is_ready:
            print_text(f"Not ready: {'; '.join(status.missing)}.")


def shown_path(text: str) -> str:
    """Return a path for display, with `~` for the home folder."""
    home = str(Path("~").expanduser())
    return "~" + text[len(home) :] if text.startswith(home + "/") else text


def _show_offers(
    status: ProviderStatus, model_offers: Sequence[ModelOffer], *, limit: int | None, width: int
) -> None:
    name = status.provider.name
    for offer in model_offers[:limit]:
        print_text(f"  {offer.name:<{width}}  {price_text(offer.price)}".rstrip())
    if len(model_offers) > len(model_offers[:limit]):
        hidden_count = len(model_offers) - len(model_offers[:limit])
        _dim(f"  and {hidden_count} more: `{program_name()} models {name}`")
    if not model_offers and status.provider.local:
        _dim(f"  {name}/...: no models")
    elif not model_offers:
        _dim(f"  {name}/...: `{program_name()} models {name} --remote` lists its models")


def price_text(price: Price | None) -> str:
    """Format the price of a model, input and output.

    >>> price_text(Price(input=0.1, output=12.5))
    ' 0.10 / 12.50'
    """
    if price is None:
        return ""
    long = price.long_prompt
    limit = f" up to {long.from_tokens // 1000}k of prompt" if long is not None else ""
    return f"{_usd(price.input):>5} / {_usd(price.output):<5}{limit}".rstrip()


def _usd(rate: float) -> str:
    if rate == int(rate):
        return str(int(rate))
    return f"{rate:.2f}" if round(rate, 2) == rate else f"{rate:g}"


def _title(text: str, suffix: str = "") -> None:
    click.echo(click.style(text, bold=True) + click.style(suffix, dim=True))


def _dim(text: str) -> None:
    click.secho(escape_control_characters(text), dim=True)
