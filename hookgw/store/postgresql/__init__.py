"""The store in a PostgreSQL database, which several nodes may share. Needs the extra ``postgresql``.

Imported only if ``storage.engine`` says so: hookgw with SQLite needs no driver.
"""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.store.postgresql.public import *
else:
    __getattr__ = public_names(__name__)
