"""Responses about keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hookgw.kernel.fields import presenter, response_type
from hookgw.kernel.schema_parts import Time
from hookgw.keys.fields import CREATED, SHOWN, Showing
from hookgw.records import api_keys

if TYPE_CHECKING:  # their fields are those of the table
    Key = Any
    CreatedKey = Any
else:
    Key = response_type(
        "Key",
        SHOWN,
        "The stored data of a key. hookgw stores only a hash of the key and cannot show the key again.",
    )
    CreatedKey = response_type("CreatedKey", CREATED, "A new key.")


class PortalLink(Struct, frozen=True, kw_only=True, rename="camel"):
    """A new portal link.

    Attributes:
        url: opens the dashboard once. The part behind `#` is a secret; it is shown only here.
        expires_at: until when it can be opened.
    """

    url: str
    expires_at: Time


present_key: Callable[[api_keys.Key, Showing], Any] = presenter(Key, SHOWN)
present_created_key: Callable[[api_keys.Key, Showing], Any] = presenter(CreatedKey, CREATED)
