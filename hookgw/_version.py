"""The one place the version is written; packaging and ``hookgw --version`` read it here."""

__version__ = "0.1.0"
