"""Records that hold secrets and do not show them where they are printed. No I/O.

A record finds its way into messages of errors, tracebacks and logs by its ``repr``, most of all in plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hookgw.models.userinfo import MASK, with_masked_user


def repr_without(*secret: str) -> Callable[[Any], str]:
    """A ``__repr__`` for a record.

    Args:
        secret: the fields whose values are masked, where they are not empty.

    Returns:
        A method that shows all other fields, without users and passwords of URLs.
    """

    def show(value: Any) -> str:
        return repr(with_masked_user(value) if isinstance(value, str) else value)

    def masked_repr(self: Any) -> str:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        shown = (
            f"{name}={MASK if value and name in secret else show(value)}" for name, value in values.items()
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    return masked_repr
