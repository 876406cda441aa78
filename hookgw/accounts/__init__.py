"""A document that says what should be there, and what carries it out: ``hookgw apply``."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.accounts.public import *
else:
    __getattr__ = public_names(__name__)
