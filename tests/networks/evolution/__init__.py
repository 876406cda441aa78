"""A stand-in for an Evolution API 2.3.7 server, for tests and for trying hookgw in front of one."""

from tests.networks.evolution.server import KEY, WUID, Account, Evolution, Posted, serving

__all__ = ["KEY", "WUID", "Account", "Evolution", "Posted", "serving"]
