"""The descriptors of the standard streams."""

from __future__ import annotations

import os


def fill_descriptors() -> None:
    """Let those of descriptors 0 to 2 that were closed before the start lead to nowhere.

    Otherwise the next file would get such a descriptor: the data file, or a file that a library keeps open
    once it is imported. What writes to a standard stream, such as a library with an error, would write
    into that file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # It takes the lowest free descriptor, which is this one.
            os.open(os.devnull, os.O_RDWR)
