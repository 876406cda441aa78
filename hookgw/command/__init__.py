"""The commands. Each module is imported only when its command is called."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.command.public import *
else:
    __getattr__ = public_names(__name__)
