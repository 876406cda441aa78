"""Messages that connectors send, chats, and files that came in."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.messages.public import *
else:
    __getattr__ = public_names(__name__)
