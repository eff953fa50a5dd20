"""`replace`: return a changed copy of a Struct.

`msgspec.structs.replace` takes any keyword. mypy checks the fields of `dataclasses.replace`, also
for Structs, so for mypy it is that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["replace"]
