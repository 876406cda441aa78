"""A simulated messaging network, for trying hookgw out, for its demo, and for tests.

An instance with ``"integration": "simulator"`` shows a QR code, opens, and receives messages at a given rate.
Messages that it sends are acknowledged, delivered and read. An instance's options override those of the
configuration::

    plugins: {options: {simulator: {rate: 5, chats: 20, connect_delay: 2s}}}

It is also the example for writers of connectors. Read it in this order:

- ``options.py``: an instance's options and their JSON Schema, with secrets;
- ``connector.py``: the connector, with every method that hookgw can call;
- ``receiving.py`` and ``state.py``: events and state in one commit, so that a kill loses and repeats nothing;
- ``outgoing.py``: all types of messages, and a key that makes a repeated send harmless;
- ``network_requests.py``: the proof of requests that the network sends to hookgw;
- ``connection.py``: refusals with a code, a status and the time to wait;
- ``traffic.py`` and ``picture.py``: what the network has to say.
"""

from __future__ import annotations

from .connector import Simulator

_simulator = Simulator()
hookgw_configure = _simulator.hookgw_configure
hookgw_reconfigure = _simulator.hookgw_reconfigure
hookgw_connectors = _simulator.hookgw_connectors
