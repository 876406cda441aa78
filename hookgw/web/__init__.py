"""The HTTP API: a Quart application on Trio, and the server that runs it."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.web.public import *
else:
    __getattr__ = public_names(__name__)
