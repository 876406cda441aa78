"""One delivery attempt: envelope, signature, request, and what the response means."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.delivery.public import *
else:
    __getattr__ = public_names(__name__)
