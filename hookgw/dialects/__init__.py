"""How callers write things: the dialects of known clients, read into one form. No I/O."""

from hookgw.dialects.deliveries import Replay, parse_replay
from hookgw.dialects.events import Batch, EmitLimits, parse_events
from hookgw.dialects.headers import unmask_headers, unmask_url
from hookgw.dialects.instances import Creation, parse_creation, parse_text_message
from hookgw.dialects.keys import KeyRequest, parse_key_request
from hookgw.dialects.registrations import parse_grace, parse_registration

__all__ = [
    "Batch",
    "Creation",
    "EmitLimits",
    "KeyRequest",
    "Replay",
    "parse_creation",
    "parse_events",
    "parse_grace",
    "parse_key_request",
    "parse_registration",
    "parse_replay",
    "parse_text_message",
    "unmask_headers",
    "unmask_url",
]
