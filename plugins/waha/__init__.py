"""Connects instances to sessions of WAHA, the WhatsApp HTTP API.

An instance with ``"integration": "waha"`` has the options ``base_url`` and ``api_key``; docs/networks/waha.md
describes all of them. What is the same for all instances may stand in the configuration. A server with a
private address must be listed there::

    plugins: {options: {waha: {base_url: "http://10.0.0.5:3000", api_key: "…", servers: ["http://10.0.0.5:3000"]}}}

An example of a connector whose network calls hookgw: it sets its webhook up by itself, and checks it.
"""

from __future__ import annotations

from .connector import Waha

_waha = Waha()
hookgw_configure = _waha.hookgw_configure
hookgw_reconfigure = _waha.hookgw_reconfigure
hookgw_secret_options = _waha.hookgw_secret_options
hookgw_connectors = _waha.hookgw_connectors
