"""Connects instances to the accounts in an Evolution API server, which stays.

hookgw sets the webhook of an instance there, takes its events, and forwards its calls. An instance with
``"integration": "evolution"`` has the options ``base_url``, ``api_key`` and ``remote``;
docs/networks/evolution.md describes all of them. Defaults for all instances, and a server with a private
address, are in the configuration::

    plugins:
      options:
        evolution: {base_url: "http://10.0.0.5:8080", api_key: "…", servers: ["http://10.0.0.5:8080"]}

An example of ``hookgw_connectors`` for a network that calls hookgw.
"""

from __future__ import annotations

from .connector import Evolution

_evolution = Evolution()
hookgw_configure = _evolution.hookgw_configure
hookgw_reconfigure = _evolution.hookgw_reconfigure
hookgw_secret_options = _evolution.hookgw_secret_options
hookgw_connectors = _evolution.hookgw_connectors
