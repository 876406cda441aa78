"""Pure functions that know no concept of hookgw: fields of JSON, schemas, rules, audited changes. No I/O."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.kernel.public import *
else:
    __getattr__ = public_names(__name__)
