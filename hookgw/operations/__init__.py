"""What an operator sees and does: reports, problems, audit, backups, jobs, erasure."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.operations.public import *
else:
    __getattr__ = public_names(__name__)
