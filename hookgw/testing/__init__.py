"""The test kit for plugin authors, which hookgw's own tests use too.

It has a real receiver with programmable faults, a gateway on a clock that the test moves, a scripted
connector, and a session for unit tests of connectors. :mod:`hookgw.testing.pytest_plugin` provides fixtures.
``docs/testing.md`` has examples. Everything here is stable within a major version.
"""

from hookgw._lazy import names_of_stub

# pytest imports this package at every start, because of the pytest plugin. Importing each module at the first
# use of its names keeps Trio and the gateway out of test runs that have nothing to do with hookgw.
__getattr__, __dir__, __all__ = names_of_stub(__name__)
