"""The kit for connectors: what every network needs, once.

Import from here; every name is stable within a major version. docs/connectors.md says how they fit together.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgw.connectors.client import (
        REQUEST_TIMEOUT,
        NetworkClient,
        chunks_of,
        pass_file,
        read_file,
        retry_after_of,
    )
    from hookgw.connectors.connector import Connections, NetworkConnector, load_state, save_state, schema_with
    from hookgw.connectors.errors import Refused, Unreachable, pause_after, wait_after
    from hookgw.connectors.events import attach_file, emit_valid, network_event
    from hookgw.connectors.json_values import (
        LARGEST_NUMBER,
        LATEST_TIME,
        as_written,
        degrees,
        each,
        filled,
        found_at,
        items,
        mapping,
        number,
        one_line,
        raw_at,
        raw_items,
        seconds,
        strings,
        text,
        texts,
    )
    from hookgw.connectors.messages import (
        FileToSend,
        MediaUrl,
        check_mimetype,
        file_to_send,
        is_mimetype,
        sent_content,
        sent_data,
        text_data,
        vcard_of,
        vcard_text,
    )
    from hookgw.connectors.options import (
        check_names,
        check_token,
        is_bare,
        read_options,
        server_url,
    )
    from hookgw.connectors.proofs import answer_challenge, is_secret, is_signature
    from hookgw.connectors.sentences import (
        BODY_NOT_OBJECT,
        BODY_REFUSED,
        EMPTY_TEXT,
        PRESENCE_WITHOUT_CHAT,
    )
    from hookgw.connectors.whatsapp_numbers import whatsapp_chat_of, whatsapp_number_of
    from hookgw.kernel.masking import repr_without
    from hookgw.kernel.network_json import NetworkEvents, decode_json
    from hookgw.kernel.recent import Recent
    from hookgw.records.inline_media import explain_missing_file

# Names are loaded on first use: httpx alone takes a tenth of a second, and not every connector needs it.
_HOMES = {
    "hookgw.connectors.client": (
        *("REQUEST_TIMEOUT", "NetworkClient", "chunks_of", "pass_file", "read_file", "retry_after_of"),
    ),
    "hookgw.connectors.connector": (
        "Connections",
        "NetworkConnector",
        "load_state",
        "save_state",
        "schema_with",
        "seconds",
    ),
    "hookgw.connectors.errors": ("Refused", "Unreachable", "pause_after", "wait_after"),
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
        *("one_line", "raw_at", "raw_items", "seconds", "strings", "text", "texts"),
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

__all__ = [
    "BODY_NOT_OBJECT",
    "BODY_REFUSED",
    "EMPTY_TEXT",
    "LARGEST_NUMBER",
    "LATEST_TIME",
    "PRESENCE_WITHOUT_CHAT",
    "REQUEST_TIMEOUT",
    "Connections",
    "FileToSend",
    "MediaUrl",
    "NetworkClient",
    "NetworkConnector",
    "NetworkEvents",
    "Recent",
    "Refused",
    "Unreachable",
    "answer_challenge",
    "as_written",
    "attach_file",
    "check_mimetype",
    "check_names",
    "check_token",
    "chunks_of",
    "decode_json",
    "degrees",
    "each",
    "emit_valid",
    "explain_missing_file",
    "file_to_send",
    "filled",
    "found_at",
    "is_bare",
    "is_mimetype",
    "is_secret",
    "is_signature",
    "items",
    "load_state",
    "mapping",
    "network_event",
    "number",
    "one_line",
    "pass_file",
    "pause_after",
    "raw_at",
    "raw_items",
    "read_file",
    "read_options",
    "repr_without",
    "retry_after_of",
    "save_state",
    "schema_with",
    "seconds",
    "sent_content",
    "sent_data",
    "server_url",
    "strings",
    "text",
    "text_data",
    "texts",
    "vcard_of",
    "vcard_text",
    "wait_after",
    "whatsapp_chat_of",
    "whatsapp_number_of",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
