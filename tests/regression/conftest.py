"""The fixtures of the command line, for regression tests that use it."""

from tests.cli.conftest import cli, demo, script

__all__ = ["cli", "demo", "script"]
