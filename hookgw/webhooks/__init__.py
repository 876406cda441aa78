"""Registrations: their fields, changes and responses. No I/O."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.webhooks.public import *
else:
    __getattr__ = public_names(__name__)
