"""Connects instances to WhatsApp's Cloud API: a business phone number at Meta.

An instance with ``"integration": "whatsapp_cloud"`` has the options ``phone_number_id``, ``access_token``,
``app_secret`` and ``verify_token``. docs/networks/whatsapp_cloud.md describes all of them. Those that all
instances share may stand in the configuration::

    plugins: {options: {whatsapp_cloud: {app_secret: "${META_APP_SECRET}", verify_token: "${META_VERIFY}"}}}

An example of a network that calls hookgw. Read it in this order:

- ``options.py``: the options of an instance, and those that the configuration gives to all;
- ``webhooks.py``: what Meta posts: the proof, the challenge, and the changes in a body;
- ``events.py``: messages and statuses as events; ``outgoing.py``: the way back;
- ``client.py``: requests to the Graph API, and its errors;
- ``turns.py`` and ``connection.py``: one number: its health, and the order of what arrives;
- ``connector.py``: the connector.
"""

from __future__ import annotations

from .connector import WhatsAppCloud

_whatsapp_cloud = WhatsAppCloud()
hookgw_configure = _whatsapp_cloud.hookgw_configure
hookgw_reconfigure = _whatsapp_cloud.hookgw_reconfigure
hookgw_secret_options = _whatsapp_cloud.hookgw_secret_options
hookgw_connectors = _whatsapp_cloud.hookgw_connectors
