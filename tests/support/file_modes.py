"""A file system without modes."""

import os

import pytest


def without_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each new file one mode, as NTFS, exFAT, and a folder of Windows in Docker do.

    Those file systems cannot be had everywhere.
    """
    made_with_a_mode = os.open

    def made_without(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        descriptor = made_with_a_mode(path, flags, mode, dir_fd=dir_fd)
        os.fchmod(descriptor, 0o777)
        return descriptor

    monkeypatch.setattr(os, "open", made_without)
