"""What routes and pages need of their callers. Each declares it, as a required argument. No I/O.

``x-right`` of each operation in ``/openapi.json`` is the table of all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import msgspec

from hookgw.records.api_keys import Right


class Scope(StrEnum):
    """Where a caller needs a right."""

    OPEN = "anybody may call it"
    ANY_KEY = "any key may call it"
    INSTANCE = "on the instance in the path"
    REACH = "it is about the instances within the key's reach alone"
    EVERYTHING = "the key must reach everything"


class Need(msgspec.Struct, frozen=True):
    """What a route needs; without a right, a key is enough, or nothing."""

    scope: Scope
    right: Right | None = None

    @property
    def word(self) -> str:
        """What OpenAPI shows as ``x-right``."""
        return str(self.right) if self.right is not None else "none" if self.scope is Scope.OPEN else "any"


Declared = Need | Right
"""A right alone is needed on the instance in the path, or, without one, over everything."""

OPEN = Need(Scope.OPEN)
"""No key. The route checks the caller itself, or has nothing to hide."""
ANY_KEY = Need(Scope.ANY_KEY)
"""Any key. The route tells nothing of instances."""


def within_reach(right: Right) -> Need:
    """Return the need of a route without an instance in its path, which looks at the reach itself."""
    return Need(Scope.REACH, right)


OPEN_PREFIX = "/public/"
"""Plugins' routes below this path need no key, unless they declare another need."""
SHARED_PREFIX = "/shared/"
"""Plugins' routes below this path accept any key, unless they declare another need."""


def need_of(declared: Declared | None, rule: str, variables: Collection[str]) -> Need:
    """Return what a route needs.

    Args:
        declared: ``None`` for a route of a plugin that declares nothing: it needs ``operate``, unless its
            path says otherwise.
    """
    if declared is None and "instance" not in variables:
        if rule.startswith(OPEN_PREFIX):
            return OPEN
        if rule.startswith(SHARED_PREFIX):
            return ANY_KEY
    if isinstance(declared, Need):
        return declared
    right = Right.OPERATE if declared is None else declared
    return Need(Scope.INSTANCE if "instance" in variables else Scope.EVERYTHING, right)
