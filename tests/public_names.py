"""The public names of `harken` and of its packages."""

from __future__ import annotations

from importlib import import_module

PACKAGES = (
    "harken",
    *("harken.agents", "harken.context", "harken.formats", "harken.interactions", "harken.llm"),
    *("harken.recording", "harken.session", "harken.store", "harken.tickets", "harken.world"),
)
PUBLIC_NAMES = [(package, name) for package in PACKAGES for name in import_module(package).__all__]
"""Pairs of a package and a name."""
