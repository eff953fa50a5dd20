"""`harken models`: which models can be used now, what others need, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from harken.cli.options.home import home_option, json_option
from harken.config.discovery import ModelOffer, ProviderStatus, discover, offers
from harken.config.home import Home
from harken.config.settings import Settings, load_settings
from harken.errors import NameNotFound
from harken.llm.prices import Price
from harken.terminal.text import escape_control_characters, print_json, print_text, program_name

SHOWN = 6
"""How many models of a provider a list of all shows."""


@click.command()
@click.argument("provider", required=False)
@click.option("--remote", is_flag=True, help="Ask also providers elsewhere for their models.")
@json_option
@home_option
def command(provider: str | None, remote: bool, as_json: bool, home: Home) -> None:
    """List the models that can be used, and what others need.

    PROVIDER shows all that is known of one. Only servers of this machine are asked, except with
    --remote.
    """
    settings = load_settings(home)
    for note in settings.notes:
        click.echo(escape_control_characters(note), err=True)
    if provider is not None and provider not in settings.providers:
        raise NameNotFound("provider", provider, settings.providers)
    wanted = [settings.providers[provider]] if provider else list(settings.providers.values())
    found = discover(wanted, remote=remote)
    today = datetime.now(UTC).date()
    if as_json:
        print_json(described(found, settings, today))
    else:
        show(found, settings, today, limit=None if provider else SHOWN)


def described(found: Iterable[ProviderStatus], settings: Settings, day: date) -> dict[str, Any]:
    """Return all of it as JSON values."""
    return {
        "model": settings.model,
        "model_from": settings.model_from or None,
        "providers": [
            {
                "name": one.provider.name,
                "protocol": one.provider.protocol,
                "base_url": one.provider.base_url,
                "local": one.provider.local,
                "ready": one.ready,
                "missing": list(one.missing),
                "models": [_row(offer) for offer in offers(one, settings.prices, day)],
            }
            for one in found
        ],
    }


def _row(offer: ModelOffer) -> dict[str, Any]:
    names = ("input", "output", "cache_read", "cache_write")
    rates = None if offer.price is None else {name: getattr(offer.price, name) for name in names}
    return {"name": offer.name, "usd_per_million_tokens": rates}


def show(
    found: Sequence[ProviderStatus], settings: Settings, day: date, *, limit: int | None
) -> None:
    """Print what can be used, then what others need; without a limit all that is known."""
    say_model(settings, found)
    listed = {one.provider.name: offers(one, settings.prices, day) for one in found}
    ready = [one for one in found if one.ready or (limit is None and listed[one.provider.name])]
    if ready:
        shown = [offer for one in ready for offer in listed[one.provider.name][:limit]]
        width = max([len(offer.name) for offer in shown] + [24])
        click.echo()
        title = "Ready" if limit is not None or ready[0].ready else "Known"
        _title(f"{title:<{width + 2}}", "  USD per million tokens, in / out")
        for one in ready:
            _show_offers(one, listed[one.provider.name], limit=limit, width=width)
    waiting = [one for one in found if not one.ready]
    if waiting:
        click.echo()
        _title("Not ready")
        width = max(len(one.provider.name) for one in waiting)
        for one in waiting:
            print_text(f"  {one.provider.name:<{width}}  {'; '.join(one.missing)}")


def say_model(settings: Settings, found: Sequence[ProviderStatus]) -> None:
    """Print which model a new session has, and what it lacks."""
    if settings.model is None:
        print_text(f"No model is chosen: `{program_name()} init` chooses one, or pass --model.")
        return
    chosen = click.style(escape_control_characters(settings.model), bold=True)
    source = escape_control_characters(shown_path(settings.model_from))
    click.echo(f"New sessions use {chosen} (from {source}).")
    provider, slash, _ = settings.model.partition("/")
    if slash and ":" not in provider and provider not in settings.providers:
        print_text(f"There is no provider {provider!r}: check the name, or add it to config.toml.")
    for one in found:
        if one.provider.name == provider and not one.ready:
            print_text(f"It is not ready: {'; '.join(one.missing)}.")


def shown_path(text: str) -> str:
    """Return a path as a person would write it, below `~` where it is."""
    home = str(Path("~").expanduser())
    return "~" + text[len(home) :] if text.startswith(home + "/") else text


def _show_offers(
    one: ProviderStatus, known: Sequence[ModelOffer], *, limit: int | None, width: int
) -> None:
    name = one.provider.name
    for offer in known[:limit]:
        print_text(f"  {offer.name:<{width}}  {price_text(offer.price)}".rstrip())
    if len(known) > len(known[:limit]):
        _dim(f"  and {len(known) - len(known[:limit])} more: `{program_name()} models {name}`")
    if not known and one.provider.local:
        _dim(f"  {name}/...: it has no model yet")
    elif not known:
        _dim(f"  {name}/...: `{program_name()} models {name} --remote` asks which there are")


def price_text(price: Price | None) -> str:
    """Return what a model costs, in and out, as one would say it.

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


def _title(text: str, more: str = "") -> None:
    click.echo(click.style(text, bold=True) + click.style(more, dim=True))


def _dim(text: str) -> None:
    click.secho(escape_control_characters(text), dim=True)
