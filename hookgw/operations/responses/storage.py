"""Responses about the storage."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType


class Backup(Struct, frozen=True, kw_only=True):
    """A backup in `storage.backup_folder`.

    Attributes:
        name: the name of the file.
        job: the id of the job that makes it, if that takes more than 2 s; absent once the file is there.
    """

    name: str
    job: str | UnsetType = UNSET
