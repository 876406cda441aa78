"""The public names of ``hookgw.delivery``."""

from __future__ import annotations

from hookgw.delivery.destinations import *
from hookgw.delivery.envelope import *
from hookgw.delivery.failed_response import *
from hookgw.delivery.http import handshake
from hookgw.delivery.http.address_guard import *
from hookgw.delivery.http.address_rotation import *
from hookgw.delivery.http.answer_memory import *
from hookgw.delivery.http.client_tls import *
from hookgw.delivery.http.connection import *
from hookgw.delivery.http.connector_client import *
from hookgw.delivery.http.deadlines import *
from hookgw.delivery.http.dialer import *
from hookgw.delivery.http.errors import *
from hookgw.delivery.http.fetch import *
from hookgw.delivery.http.happy_eyeballs import *
from hookgw.delivery.http.own_addresses import *
from hookgw.delivery.http.plugin_client import *
from hookgw.delivery.http.pools import *
from hookgw.delivery.http.proxy import *
from hookgw.delivery.http.resolver import *
from hookgw.delivery.http.response import *
from hookgw.delivery.http.stream import *
from hookgw.delivery.http.transport import *
from hookgw.delivery.outbound import *
from hookgw.delivery.outcome import *
from hookgw.delivery.redaction import *
from hookgw.delivery.request_head import *
from hookgw.delivery.sender import *
from hookgw.delivery.signing import *

HandshakeHandshake = handshake.Handshake
