"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.delivery import envelope, outbound, signing
from hookgw.delivery.destinations import *
from hookgw.delivery.envelope import *
from hookgw.delivery.http import (
    answer_memory,
    client_tls,
    connection,
    connector_client,
    deadlines,
    handshake,
    plugin_client,
    pools,
    proxy,
    resolver,
    response,
    stream,
)
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

ANSWER_PATIENCE = answer_memory.PATIENCE
CONNECTOR_IDLE_TIME = connector_client.IDLE_TIME
DEADLINE_GRAIN = deadlines.GRAIN
HandshakeHandshake = handshake.Handshake
LEAST_POOL_DESCRIPTORS = pools.LEAST_DESCRIPTORS
LOOKUP_REFUSED_FOR = resolver.REFUSED_FOR
MAX_CONNECTOR_ANSWER = connector_client.MAX_ANSWER
MAX_CONNECTOR_IDLE = connector_client.MAX_IDLE
MAX_FAST_LOOKUPS = resolver.MAX_FAST
MAX_INTERIM_RESPONSES = response.MAX_INTERIM
MAX_NEW_LOOKUPS = resolver.MAX_NEW
MAX_PLUGIN_ANSWER = plugin_client.MAX_ANSWER
MAX_PLUGIN_REQUESTS = plugin_client.MAX_CONCURRENT
MAX_PROXY_HEAD = proxy.MAX_HEAD
MAX_REMEMBERED_LOOKUPS = resolver.MAX_REMEMBERED
MAX_RESPONSE_HEAD = response.MAX_HEAD
MAX_RESPONSE_HEADERS = response.MAX_HEADERS
MAX_SLOW_LOOKUPS = resolver.MAX_SLOW
MOST_KEPT_BODY = envelope.MOST_KEPT
POOLS_LOOK_EVERY = pools.LOOK_EVERY
POOL_SHARED_FOR = pools.SHARED_FOR
POOL_SUSPECT_FOR = pools.SUSPECT_FOR
PROXY_CHECK_TIMEOUT = outbound.CHECK_TIMEOUT
SIGNATURE_TOLERANCE = signing.TOLERANCE
SLOW_LOOKUP = resolver.SLOW
SMALL_REQUEST = connection.SMALL
STREAM_READ_SIZE = stream.READ_SIZE
USUAL_TLS_CONTEXTS = client_tls.USUAL_CONTEXTS
