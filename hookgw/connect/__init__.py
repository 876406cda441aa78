"""The receiver without a public address: `hookgw connect`."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.connect.public import *
else:
    __getattr__ = public_names(__name__)
