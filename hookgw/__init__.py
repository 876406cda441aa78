"""hookgw: a durable webhook gateway for messaging instances.

Plugin authors import from here; every name is stable within a major version.
"""

from hookgw._lazy import names_of_stub

# Names are loaded on first use, so that `hookgw --version` does not import everything.
__getattr__, __dir__, __all__ = names_of_stub(__name__)
