"""Bring all records to the present master key, at start.

Either all records are in the clear, or all are encrypted. A record in the clear among encrypted ones was not
written by hookgw, and stops the start: otherwise somebody who can write to the storage could plant a
registration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec
import structlog

from hookgw.config.master_keys import MasterKeys
from hookgw.config.service_manager import extended_start
from hookgw.kernel.errors import StartError
from hookgw.store.encryption import DecryptionFailed, RecordCipher, encrypted_with, key_id
from hookgw.store.shelves import place_of

logger = structlog.get_logger("hookgw.store")

# How many records are in memory at once.
PAGE = 500

# A value that exists from the first start with a key on: a file without records knows its key, too.
CHECK_KEY = "sealing.check"

Convert = Callable[[str, bytes, bytes], bytes]
"""Returns the new form of a record, by its shelf, key and value."""


def reencrypt(
    beginnings: Collection[str | None],
    keys: MasterKeys,
    rewrite: Callable[[Convert], None],
    *,
    kind: str,
    **place: str,
) -> RecordCipher | None:
    """Encrypt all records with the present key, unless they are already.

    Args:
        beginnings: the different beginnings of encrypted records, with the ids of their keys; ``None`` stands
            for records in the clear.
        rewrite: converts every record and adds the value of :data:`CHECK_KEY` first, in one transaction, and
            leaves no trace of the former ones.
        kind: what the storage is, for messages: ``data file``.
        place: its name, as a field of the log: ``file``.

    Returns:
        The cipher for all further records; ``None`` if they are in the clear.

    Raises:
        StartError: a key is missing or wrong, or somebody else changed a record.
        Exception: from ``rewrite``; nothing was changed.
    """
    storage = f"{kind} {next(iter(place.values()))}"
    found = {beginning and encrypted_with(beginning) for beginning in beginnings}
    configured = [key_id(key) for key in (keys.present, *keys.old) if key is not None]
    unknown = sorted(name for name in found if name and name not in configured)
    if unknown:
        raise _missing_key(
            f"The {storage} is encrypted with the master key {', '.join(unknown)}", configured, keys.unseal
        )
    if None in found and len(found) > 1:
        raise StartError(
            f"The {storage} has records in the clear among encrypted ones: hookgw did not write them.",
            "Replace it with a backup.",
        )
    if keys.present is None:
        if found - {None}:
            if not keys.unseal:
                raise StartError(
                    f"The {storage} is encrypted, and storage.master_key is not set.",
                    "Set it, or storage.master_key_file. To store everything in the clear again, set "
                    "storage.master_key: clear.",
                )
            old = RecordCipher(keys.old[0], keys.old)
            with extended_start():
                rewrite(
                    _checked(storage, lambda place, value: old.decrypt(place, msgspec.json.decode(value)))
                )
            logger.info(f"{kind} decrypted", **place)
        return None
    cipher = RecordCipher(keys.present, keys.old)

    def convert(place: bytes, value: bytes) -> bytes:
        clear = cipher.decrypt(place, msgspec.json.decode(value)) if encrypted_with(value) else value
        return msgspec.json.encode(cipher.encrypt(place, clear))

    if found != {cipher.id}:
        with extended_start():
            rewrite(_checked(storage, convert))
        logger.info(f"{kind} encrypted", **place, key=cipher.id)
    if None in found:  # at the first start with a key; else somebody replaced the storage with another one
        logger.warning("records were in the clear, encrypted now", **place)
    return cipher


def records_of(connection: Any, next_page: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the shelf, key and value of each record, read by a statement that returns a page of them."""
    after: tuple[str, bytes] = ("", b"")
    while rows := connection.execute(next_page, (*after, PAGE)).fetchall():
        yield from ((shelf, key, bytes(value)) for shelf, key, value in rows)
        after = rows[-1][:2]


def _missing_key(problem: str, configured: list[str], unseal: bool) -> StartError:
    if unseal:
        return StartError(
            f"{problem}, and storage.old_master_keys does not have it.",
            "To store everything in the clear, put that key into storage.old_master_keys.",
        )
    if not configured:
        return StartError(
            f"{problem}, and no master key is configured.",
            "Set storage.master_key (or HOOKGW_MASTER_KEY), or storage.master_key_file, to that key.",
        )
    return StartError(
        f"{problem}, and storage.master_key, storage.master_key_file and storage.old_master_keys have only "
        f"{', '.join(configured)}.",
        "Add that key: under old_master_keys, to encrypt everything with a new one.",
    )


def _checked(storage: str, convert: Callable[[bytes, bytes], bytes]) -> Convert:
    def checked(shelf: str, key: bytes, value: bytes) -> bytes:
        try:
            return convert(place_of(shelf, key), value)
        except (DecryptionFailed, msgspec.DecodeError) as error:
            raise StartError(
                f"The {storage} is damaged: on the shelf {shelf}, {key.decode()!r} cannot be decrypted "
                f"({error}).",
                "Replace it with a backup.",
            ) from error

    return checked
