"""The kit for connectors: what every network needs, once.

Import from here; every name is stable within a major version. docs/connectors.md says how they fit together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgw._lazy import names_of

if TYPE_CHECKING:
    from hookgw.connectors.client import REQUEST_TIMEOUT as REQUEST_TIMEOUT
    from hookgw.connectors.client import NetworkClient as NetworkClient
    from hookgw.connectors.client import chunks_of as chunks_of
    from hookgw.connectors.client import pass_file as pass_file
    from hookgw.connectors.client import read_file as read_file
    from hookgw.connectors.client import retry_after_of as retry_after_of
    from hookgw.connectors.connector import Connections as Connections
    from hookgw.connectors.connector import NetworkConnector as NetworkConnector
    from hookgw.connectors.connector import close_for_options as close_for_options
    from hookgw.connectors.connector import load_state as load_state
    from hookgw.connectors.connector import save_state as save_state
    from hookgw.connectors.connector import schema_with as schema_with
    from hookgw.connectors.errors import Refused as Refused
    from hookgw.connectors.errors import Unreachable as Unreachable
    from hookgw.connectors.errors import is_outage as is_outage
    from hookgw.connectors.errors import pause_after as pause_after
    from hookgw.connectors.errors import wait_after as wait_after
    from hookgw.connectors.events import attach_file as attach_file
    from hookgw.connectors.events import emit_valid as emit_valid
    from hookgw.connectors.events import network_event as network_event
    from hookgw.connectors.json_values import LARGEST_NUMBER as LARGEST_NUMBER
    from hookgw.connectors.json_values import LATEST_TIME as LATEST_TIME
    from hookgw.connectors.json_values import any_number as any_number
    from hookgw.connectors.json_values import as_written as as_written
    from hookgw.connectors.json_values import degrees as degrees
    from hookgw.connectors.json_values import each as each
    from hookgw.connectors.json_values import filled as filled
    from hookgw.connectors.json_values import found_at as found_at
    from hookgw.connectors.json_values import items as items
    from hookgw.connectors.json_values import mapping as mapping
    from hookgw.connectors.json_values import number as number
    from hookgw.connectors.json_values import one_line as one_line
    from hookgw.connectors.json_values import raw_at as raw_at
    from hookgw.connectors.json_values import raw_items as raw_items
    from hookgw.connectors.json_values import seconds as seconds
    from hookgw.connectors.json_values import strings as strings
    from hookgw.connectors.json_values import text as text
    from hookgw.connectors.json_values import texts as texts
    from hookgw.connectors.messages import FileToSend as FileToSend
    from hookgw.connectors.messages import MediaUrl as MediaUrl
    from hookgw.connectors.messages import check_mimetype as check_mimetype
    from hookgw.connectors.messages import file_to_send as file_to_send
    from hookgw.connectors.messages import is_mimetype as is_mimetype
    from hookgw.connectors.messages import sent_content as sent_content
    from hookgw.connectors.messages import sent_data as sent_data
    from hookgw.connectors.messages import text_data as text_data
    from hookgw.connectors.messages import vcard_of as vcard_of
    from hookgw.connectors.messages import vcard_text as vcard_text
    from hookgw.connectors.options import check_names as check_names
    from hookgw.connectors.options import check_token as check_token
    from hookgw.connectors.options import is_bare as is_bare
    from hookgw.connectors.options import read_options as read_options
    from hookgw.connectors.options import server_url as server_url
    from hookgw.connectors.proofs import answer_challenge as answer_challenge
    from hookgw.connectors.proofs import is_secret as is_secret
    from hookgw.connectors.proofs import is_signature as is_signature
    from hookgw.connectors.sentences import BODY_NOT_OBJECT as BODY_NOT_OBJECT
    from hookgw.connectors.sentences import BODY_REFUSED as BODY_REFUSED
    from hookgw.connectors.sentences import EMPTY_TEXT as EMPTY_TEXT
    from hookgw.connectors.sentences import PRESENCE_WITHOUT_CHAT as PRESENCE_WITHOUT_CHAT
    from hookgw.connectors.whatsapp_numbers import whatsapp_chat_of as whatsapp_chat_of
    from hookgw.connectors.whatsapp_numbers import whatsapp_number_of as whatsapp_number_of
    from hookgw.kernel.masking import repr_without as repr_without
    from hookgw.kernel.network_json import NetworkEvents as NetworkEvents
    from hookgw.kernel.network_json import decode_json as decode_json
    from hookgw.kernel.recent import Recent as Recent
    from hookgw.records.inline_media import explain_missing_file as explain_missing_file

# Names are loaded on first use: httpx alone takes a tenth of a second, and not every connector needs it.
_HOMES = {
    "hookgw.connectors.client": (
        *("REQUEST_TIMEOUT", "NetworkClient", "chunks_of", "pass_file", "read_file", "retry_after_of"),
    ),
    "hookgw.connectors.connector": (
        "Connections",
        "NetworkConnector",
        "close_for_options",
        "load_state",
        "save_state",
        "schema_with",
    ),
    "hookgw.connectors.errors": ("Refused", "Unreachable", "is_outage", "pause_after", "wait_after"),
    "hookgw.connectors.events": ("attach_file", "emit_valid", "network_event"),
    "hookgw.connectors.json_values": (
        *(
            "LARGEST_NUMBER",
            "LATEST_TIME",
            "as_written",
            "degrees",
            "each",
            "filled",
            "found_at",
            "items",
            "mapping",
            "number",
        ),
        *("any_number", "one_line", "raw_at", "raw_items", "seconds", "strings", "text", "texts"),
    ),
    "hookgw.connectors.messages": (
        *("MediaUrl", "FileToSend", "check_mimetype", "sent_content", "file_to_send", "sent_data"),
        *("is_mimetype", "text_data", "vcard_of", "vcard_text"),
    ),
    "hookgw.connectors.options": (*("check_names", "check_token", "is_bare", "read_options", "server_url"),),
    "hookgw.connectors.proofs": ("answer_challenge", "is_secret", "is_signature"),
    "hookgw.connectors.sentences": (
        *("BODY_NOT_OBJECT", "BODY_REFUSED", "EMPTY_TEXT", "PRESENCE_WITHOUT_CHAT"),
    ),
    "hookgw.kernel.masking": ("repr_without",),
    "hookgw.kernel.recent": ("Recent",),
    "hookgw.records.inline_media": ("explain_missing_file",),
    "hookgw.kernel.network_json": ("NetworkEvents", "decode_json"),
    "hookgw.connectors.whatsapp_numbers": ("whatsapp_chat_of", "whatsapp_number_of"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


__getattr__ = names_of(__name__, _HOME_OF)
