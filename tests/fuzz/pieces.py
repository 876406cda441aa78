"""Bytes as they may arrive: in pieces."""

from collections.abc import Iterator


def even(data: bytes, size: int) -> Iterator[bytes]:
    """Pieces of one size, but for the last."""
    return (data[start : start + size] for start in range(0, len(data), size))


def odd(data: bytes, seed: int) -> Iterator[bytes]:
    """Pieces of many sizes."""
    start = 0
    while start < len(data):
        size = 1 + seed % 37
        yield data[start : start + size]
        start, seed = start + size, (seed * 73 + 41) % 1009
