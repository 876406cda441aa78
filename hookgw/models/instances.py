"""Instances: the connected messaging accounts, known by their names. No I/O."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hookgw.models.api_keys import DEFAULT_KEY, Key
from hookgw.models.errors import Invalid
from hookgw.models.masking import repr_without


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One connected messaging account, known by its name.

    Attributes:
        name: 1 to 128 characters of letters, digits, ``.``, ``_``, ``-``.
        id: a UUID, for clients that want one.
        integration: the connector's name; empty where events come by HTTP alone.
        keys: its keys that are stored, also those that have expired.
        key_hashes: how data files of old have the keys: by their hashes alone; see :meth:`with_named_keys`.
        options: what the connector was given at creation.
        connected: whether the connector should be running (it is started again after a restart).
    """

    name: str
    id: str
    integration: str = ""
    keys: tuple[Key, ...] = ()
    key_hashes: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    connected: bool = False
    created_at: float = 0.0

    __repr__ = repr_without("options")

    def with_named_keys(self) -> Instance:
        """The same with a name for each key; the first of those that had none is called ``default``."""
        if not self.key_hashes:
            return self
        named = (
            Key(name=f"{DEFAULT_KEY}-{number}" if number > 1 else DEFAULT_KEY, hash=key_hash)
            for number, key_hash in enumerate(self.key_hashes, 1)
        )
        return msgspec.structs.replace(self, keys=(*named, *self.keys), key_hashes=())


INSTANCE_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}", re.ASCII)
"""Not ``.`` or ``..``, which clients and proxies take out of a path (RFC 3986, section 5.2.4)."""


def check_name(name: object, what: str = "instanceName") -> str:
    """The name, if it is one.

    Raises:
        Invalid: it is no string of 1 to 128 letters, digits, ``.``, ``_``, ``-``, or it is ``.`` or ``..``.
    """
    if not isinstance(name, str) or not INSTANCE_NAME.fullmatch(name):
        raise Invalid(f"{what} must be 1 to 128 letters, digits, '.', '_' or '-', and not '.' or '..'.")
    return name
