"""Connects instances to Matrix: a user of a homeserver, over the client-server API.

An instance with ``"integration": "matrix"`` has the options ``homeserver``, ``user`` and ``password`` (or
``access_token``). docs/networks/matrix.md describes all of them. A homeserver with a private address must be
in the configuration::

    plugins: {options: {matrix: {servers: ["http://10.0.0.5:8008"]}}}

An example of ``hookgw_connectors`` for a real network.
"""

from __future__ import annotations

from .connector import Matrix

hookgw_connectors = Matrix().hookgw_connectors
