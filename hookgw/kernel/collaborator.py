"""Objects that work together: each has the others that it needs as fields."""

from __future__ import annotations

import msgspec


class Collaborator(msgspec.Struct, eq=False, dict=True, weakref=True):
    """An object that does work; a record, which only says something, is a ``Struct`` of its own.

    Equal only to itself. Its repr shows no field, because a field may be a secret or half the gateway. A
    ``Struct``, because msgspec makes a class in a twentieth of the time of a dataclass, and some fifty are
    made before hookgw listens.
    """

    __repr__ = object.__repr__
