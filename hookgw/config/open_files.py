"""How the file descriptors of the process are divided: neither clients nor receivers can use up all of them.

===========  =========================================================================================
clients      ``server.max_connections``, and at most half
others       an eighth, at least 64 (or a quarter of few) and at most 4,096: the data file, the listeners,
             lookups of names, connectors (three quarters of it), and the HTTP client of plugins
lanes        the rest: connections to receivers
===========  =========================================================================================

The shares of clients and lanes are limits that hold. The others are not counted; their share is a reserve.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

MOST_OPEN_FILES = 2**20
"""Descriptors that are divided, at most: some systems have no limit."""


class OpenFiles(NamedTuple):
    clients: int
    lanes: int
    others: int


def divide_open_files(max_connections: int, limit: int | None = None) -> OpenFiles:
    """Divide the descriptors that this process may use now.

    The limit is by default the process's soft limit, which ``hookgw serve`` raises first.
    """
    if limit is None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = MOST_OPEN_FILES if limit == resource.RLIM_INFINITY else min(limit, MOST_OPEN_FILES)
    clients = max(1, min(max_connections, limit // 2))
    others = min(max(min(64, limit // 4), limit // 8), 4096)
    return OpenFiles(clients, max(1, limit - clients - others), others)
