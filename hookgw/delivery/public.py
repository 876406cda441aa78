"""The public names of ``hookgw.delivery``: ``from hookgw.delivery import …`` loads them at the first use."""

from __future__ import annotations

from hookgw.delivery import envelope, outbound, signing
from hookgw.delivery.envelope import Envelope as Envelope
from hookgw.delivery.envelope import encode_envelope as encode_envelope
from hookgw.delivery.http import (
    answer_memory,
    client_tls,
    connection,
    connector_client,
    deadlines,
    plugin_client,
    pools,
    proxy,
    resolver,
    response,
    stream,
)
from hookgw.delivery.http.address_guard import AddressGuard as AddressGuard
from hookgw.delivery.http.address_rotation import MAX_ADDRESSES as MAX_ADDRESSES
from hookgw.delivery.http.answer_memory import AnswerMemory as AnswerMemory
from hookgw.delivery.http.answer_memory import HeldAnswer as HeldAnswer
from hookgw.delivery.http.answer_memory import MemoryFull as MemoryFull
from hookgw.delivery.http.answer_memory import keeping_answers as keeping_answers
from hookgw.delivery.http.client_tls import ClientContexts as ClientContexts
from hookgw.delivery.http.client_tls import default_ssl_context as default_ssl_context
from hookgw.delivery.http.client_tls import load_certificate as load_certificate
from hookgw.delivery.http.client_tls import read_ca_file as read_ca_file
from hookgw.delivery.http.connection import Connection as Connection
from hookgw.delivery.http.connection import PoolKey as PoolKey
from hookgw.delivery.http.connector_client import ConnectorClients as ConnectorClients
from hookgw.delivery.http.deadlines import Deadlines as Deadlines
from hookgw.delivery.http.dialer import Dialer as Dialer
from hookgw.delivery.http.errors import Blocked as Blocked
from hookgw.delivery.http.errors import ConnectFailed as ConnectFailed
from hookgw.delivery.http.errors import DeadlinePassed as DeadlinePassed
from hookgw.delivery.http.errors import DeliveryError as DeliveryError
from hookgw.delivery.http.errors import OutOfDescriptors as OutOfDescriptors
from hookgw.delivery.http.errors import Phase as Phase
from hookgw.delivery.http.errors import Reached as Reached
from hookgw.delivery.http.errors import ResolveFailed as ResolveFailed
from hookgw.delivery.http.errors import ResponseFailed as ResponseFailed
from hookgw.delivery.http.errors import SendFailed as SendFailed
from hookgw.delivery.http.errors import TimedOut as TimedOut
from hookgw.delivery.http.errors import TlsFailed as TlsFailed
from hookgw.delivery.http.fetch import FETCH_TIMEOUT as FETCH_TIMEOUT
from hookgw.delivery.http.fetch import MAX_REDIRECTS as MAX_REDIRECTS
from hookgw.delivery.http.fetch import fetch_file as fetch_file
from hookgw.delivery.http.handshake import Handshake as Handshake
from hookgw.delivery.http.happy_eyeballs import STAGGER as STAGGER
from hookgw.delivery.http.happy_eyeballs import SocketAddress as SocketAddress
from hookgw.delivery.http.happy_eyeballs import connect_directly as connect_directly
from hookgw.delivery.http.happy_eyeballs import connect_to_any as connect_to_any
from hookgw.delivery.http.happy_eyeballs import interleave as interleave
from hookgw.delivery.http.own_addresses import OwnAddresses as OwnAddresses
from hookgw.delivery.http.own_addresses import is_local as is_local
from hookgw.delivery.http.plugin_client import guarded_client as guarded_client
from hookgw.delivery.http.pools import ConnectionPools as ConnectionPools
from hookgw.delivery.http.pools import HostStatistics as HostStatistics
from hookgw.delivery.http.pools import Place as Place
from hookgw.delivery.http.pools import PooledTransport as PooledTransport
from hookgw.delivery.http.pools import PoolStatistics as PoolStatistics
from hookgw.delivery.http.proxy import ProxyFailed as ProxyFailed
from hookgw.delivery.http.proxy import open_tunnel as open_tunnel
from hookgw.delivery.http.resolver import Found as Found
from hookgw.delivery.http.resolver import SystemResolver as SystemResolver
from hookgw.delivery.http.response import Response as Response
from hookgw.delivery.http.response import ResponseParser as ResponseParser
from hookgw.delivery.http.response import decode_content as decode_content
from hookgw.delivery.http.stream import PlainStream as PlainStream
from hookgw.delivery.http.stream import StreamBroken as StreamBroken
from hookgw.delivery.http.transport import LaneTransport as LaneTransport
from hookgw.delivery.outbound import OutboundHttp as OutboundHttp
from hookgw.delivery.outcome import describe_status as describe_status
from hookgw.delivery.outcome import outcome_of_status as outcome_of_status
from hookgw.delivery.outcome import parse_retry_after as parse_retry_after
from hookgw.delivery.redaction import redact as redact
from hookgw.delivery.redaction import secrets_sent as secrets_sent
from hookgw.delivery.request_head import RequestHead as RequestHead
from hookgw.delivery.sender import AttemptResult as AttemptResult
from hookgw.delivery.sender import DeliverySender as DeliverySender
from hookgw.delivery.sender import RequestTemplate as RequestTemplate
from hookgw.delivery.sender import template_for as template_for
from hookgw.delivery.signing import MOST_SIGNATURES as MOST_SIGNATURES
from hookgw.delivery.signing import SignatureInvalid as SignatureInvalid
from hookgw.delivery.signing import sign as sign
from hookgw.delivery.signing import verify as verify

MOST_KEPT_BODY = envelope.MOST_KEPT
ANSWER_PATIENCE = answer_memory.PATIENCE
USUAL_TLS_CONTEXTS = client_tls.USUAL_CONTEXTS
SMALL_REQUEST = connection.SMALL
CONNECTOR_IDLE_TIME = connector_client.IDLE_TIME
MAX_CONNECTOR_ANSWER = connector_client.MAX_ANSWER
MAX_CONNECTOR_IDLE = connector_client.MAX_IDLE
DEADLINE_GRAIN = deadlines.GRAIN
MAX_PLUGIN_ANSWER = plugin_client.MAX_ANSWER
MAX_PLUGIN_REQUESTS = plugin_client.MAX_CONCURRENT
LEAST_POOL_DESCRIPTORS = pools.LEAST_DESCRIPTORS
POOLS_LOOK_EVERY = pools.LOOK_EVERY
POOL_SHARED_FOR = pools.SHARED_FOR
POOL_SUSPECT_FOR = pools.SUSPECT_FOR
MAX_PROXY_HEAD = proxy.MAX_HEAD
MAX_FAST_LOOKUPS = resolver.MAX_FAST
MAX_NEW_LOOKUPS = resolver.MAX_NEW
MAX_REMEMBERED_LOOKUPS = resolver.MAX_REMEMBERED
MAX_SLOW_LOOKUPS = resolver.MAX_SLOW
LOOKUP_REFUSED_FOR = resolver.REFUSED_FOR
SLOW_LOOKUP = resolver.SLOW
MAX_RESPONSE_HEAD = response.MAX_HEAD
MAX_RESPONSE_HEADERS = response.MAX_HEADERS
MAX_INTERIM_RESPONSES = response.MAX_INTERIM
STREAM_READ_SIZE = stream.READ_SIZE
PROXY_CHECK_TIMEOUT = outbound.CHECK_TIMEOUT
SIGNATURE_TOLERANCE = signing.TOLERANCE
