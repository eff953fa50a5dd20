"""What the tests of the shell share."""

from tests.unit.world.shell.boxing import box

__all__ = ["box"]
