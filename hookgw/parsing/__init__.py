"""Read the request bodies of clients, in every spelling that known clients use, into models. No I/O."""

from hookgw.parsing.deliveries import Replay, parse_replay
from hookgw.parsing.events import Batch, EmitLimits, finish, parse_events, read_events
from hookgw.parsing.headers import unmask_headers, unmask_url
from hookgw.parsing.instances import Creation, parse_creation, parse_text_message
from hookgw.parsing.keys import KeyRequest, parse_key_request
from hookgw.parsing.registrations import parse_grace, parse_registration

__all__ = [
    "Batch",
    "Creation",
    "EmitLimits",
    "KeyRequest",
    "Replay",
    "finish",
    "parse_creation",
    "parse_events",
    "parse_grace",
    "parse_key_request",
    "parse_registration",
    "parse_replay",
    "parse_text_message",
    "read_events",
    "unmask_headers",
    "unmask_url",
]
