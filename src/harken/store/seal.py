"""Seals: a sum before the bytes of a small row, over them and the name that the row is about.

Things are named by their content, so they need none; what may change of them does.
"""

from __future__ import annotations

from blake3 import blake3

SEAL_BYTES = 8


def sealed(name: str, body: bytes) -> bytes:
    """Return bytes with their seal before them."""
    return _seal(name, body) + body


def unsealed(name: str, data: bytes) -> bytes:
    """Return what was sealed under this name. Raises ValueError where that was something else."""
    if not is_sealed(name, data):
        raise ValueError("it has another sum")
    return data[SEAL_BYTES:]


def is_sealed(name: str, data: object) -> bool:
    """Whether these bytes were sealed under this name."""
    if not isinstance(data, bytes):  # a damaged table may say anything
        return False
    return data[:SEAL_BYTES] == _seal(name, data[SEAL_BYTES:])


def _seal(name: str, body: bytes) -> bytes:
    return blake3(name.encode("utf-8", "surrogatepass") + body).digest(SEAL_BYTES)
