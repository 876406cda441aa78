"""Read the request bodies of clients, in every spelling that known clients use, into models. No I/O."""

from hookgw.deliveries.requests import Cancellation, Replay, parse_cancellation, parse_replay
from hookgw.events.requests import Batch, EmitLimits, EventReader, is_single, parse_events
from hookgw.kernel.long_json import finish
from hookgw.messages.requests import (
    ChatQuery,
    Edit,
    Presence,
    parse_audio_message,
    parse_chat_query,
    parse_contact_message,
    parse_deletion,
    parse_edit,
    parse_idempotency_key,
    parse_location_message,
    parse_media_message,
    parse_numbers,
    parse_presence,
    parse_reaction_message,
    parse_read_messages,
    parse_template_message,
    parse_text_message,
)
from hookgw.operations.erasure_request import parse_erasure
from hookgw.operations.storage_request import parse_backup

__all__ = [
    "Batch",
    "Cancellation",
    "ChatQuery",
    "Edit",
    "EmitLimits",
    "EventReader",
    "Presence",
    "Replay",
    "finish",
    "is_single",
    "parse_audio_message",
    "parse_backup",
    "parse_cancellation",
    "parse_chat_query",
    "parse_contact_message",
    "parse_deletion",
    "parse_edit",
    "parse_erasure",
    "parse_events",
    "parse_idempotency_key",
    "parse_location_message",
    "parse_media_message",
    "parse_numbers",
    "parse_presence",
    "parse_reaction_message",
    "parse_read_messages",
    "parse_replay",
    "parse_template_message",
    "parse_text_message",
]
