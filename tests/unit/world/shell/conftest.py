"""Fixtures of the shell tests."""

from tests.unit.world.shell.sandbox_kit import sandbox_folders

__all__ = ["sandbox_folders"]
