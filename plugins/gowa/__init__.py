"""Connects instances to devices of GOWA (go-whatsapp-web-multidevice), a WhatsApp gateway in one binary.

An instance with ``"integration": "gowa"`` has the options ``base_url``, ``user`` and ``password``;
docs/networks/gowa.md describes all of them. What is the same for all instances may stand in the
configuration. A server with a private address must be listed there::

    plugins: {options: {gowa: {base_url: "http://10.0.0.5:3000", user: "hookgw", password: "…",
                               servers: ["http://10.0.0.5:3000"]}}}

An example of a connector that polls the state, because the network's webhooks do not tell it.
"""

from __future__ import annotations

from .connector import Gowa

_gowa = Gowa()
hookgw_configure = _gowa.hookgw_configure
hookgw_reconfigure = _gowa.hookgw_reconfigure
hookgw_secret_options = _gowa.hookgw_secret_options
hookgw_connectors = _gowa.hookgw_connectors
