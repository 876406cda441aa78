"""The kit for connectors: what every network needs, once.

Import from here; every name is stable within a major version. docs/connectors.md says how they fit together.
"""

from hookgw._lazy import names_of_stub

# Names are loaded on first use: httpx alone takes a tenth of a second, and not every connector needs it.
__getattr__, __dir__, __all__ = names_of_stub(__name__)
