"""The store in a PostgreSQL database, which several nodes may share. Needs the extra ``postgresql``.

Imported only if ``storage.engine`` says so: hookgw with SQLite needs no driver.
"""
