"""The composition root: what a process of hookgw consists of, and the order of its start and its stop."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.app.public import *
else:
    __getattr__ = public_names(__name__)
