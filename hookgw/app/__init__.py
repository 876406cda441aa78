"""The composition root: the parts of a process of hookgw, and the order of its start and stop."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.app.public import *
else:
    __getattr__ = public_names(__name__)
