"""Read the request bodies of clients, in every spelling that known clients use, into models. No I/O."""

from hookgw.deliveries.requests import Cancellation, Replay, parse_cancellation, parse_replay
from hookgw.events.requests import Batch, EmitLimits, EventReader, is_single, parse_events
from hookgw.instances.requests import (
    Creation,
    parse_creation,
    parse_option_changes,
    parse_presence_of_account,
    parse_settings,
)
from hookgw.kernel.long_json import finish
from hookgw.keys.requests import KeyRequest, parse_key_request
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
    parse_sticker_message,
    parse_template_message,
    parse_text_message,
)
from hookgw.operations.erasure_request import parse_erasure
from hookgw.operations.storage_request import parse_backup
from hookgw.parsing.message_queries import (
    parse_file_request,
    parse_group,
    parse_message_query,
    parse_picture_request,
)

__all__ = [
    "Batch",
    "Cancellation",
    "ChatQuery",
    "Creation",
    "Edit",
    "EmitLimits",
    "EventReader",
    "KeyRequest",
    "Presence",
    "Replay",
    "finish",
    "is_single",
    "parse_audio_message",
    "parse_backup",
    "parse_cancellation",
    "parse_chat_query",
    "parse_contact_message",
    "parse_creation",
    "parse_deletion",
    "parse_edit",
    "parse_erasure",
    "parse_events",
    "parse_file_request",
    "parse_group",
    "parse_idempotency_key",
    "parse_key_request",
    "parse_location_message",
    "parse_media_message",
    "parse_message_query",
    "parse_numbers",
    "parse_option_changes",
    "parse_picture_request",
    "parse_presence",
    "parse_presence_of_account",
    "parse_reaction_message",
    "parse_read_messages",
    "parse_replay",
    "parse_settings",
    "parse_sticker_message",
    "parse_template_message",
    "parse_text_message",
]
