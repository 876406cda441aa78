"""hookgw: a durable webhook gateway for messaging instances.

Plugin authors import from here; every name is stable within a major version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hookgw._version import __version__

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway
    from hookgw.connectors.whatsapp_numbers import whatsapp_chat_of, whatsapp_number_of
    from hookgw.kernel.errors import (
        Conflict,
        EventLeftOut,
        HookgwError,
        Invalid,
        NetworkRefused,
        NotFound,
        NotSupported,
        ProofRefused,
        TooLarge,
        Unavailable,
    )
    from hookgw.kernel.network_json import NetworkEvents, decode_json
    from hookgw.kernel.recent import Recent
    from hookgw.kernel.sentences import Sentence
    from hookgw.plugins.gateway_protocol import PluginGateway
    from hookgw.plugins.hookspecs import hookimpl
    from hookgw.records.api_keys import Right
    from hookgw.records.chats import chat_names, jids_of, plain_jid
    from hookgw.records.connectors import (
        ConnectionState,
        Connector,
        FetchedFile,
        IngestRequest,
        IngestResponse,
        MediaSink,
        NewEvent,
        OptionalCalls,
        QRCode,
        Session,
    )
    from hookgw.records.dashboard_pages import DashboardPage
    from hookgw.records.deliveries import Attempt, Delivery, DeliveryState, LaneState, Outcome, Outgoing
    from hookgw.records.destinations import OutgoingDelivery, OutgoingStream, Response
    from hookgw.records.events import Event, EventKind, event_id_of
    from hookgw.records.instances import InstanceSettings
    from hookgw.records.messages import (
        Contact,
        ContactMessage,
        LocationMessage,
        MediaKind,
        MediaMessage,
        Message,
        MessageKey,
        MessageQuery,
        ReactionMessage,
        TemplateMessage,
        TextMessage,
    )
    from hookgw.records.problems import Problem, ProblemKind, ProblemReport
    from hookgw.records.registrations import Registration
    from hookgw.web.openapi.plugin_describe import describes

# Names are loaded on first use, so that `hookgw --version` does not import everything.
_HOMES = {
    "hookgw.web.openapi.plugin_describe": ("describes",),
    "hookgw.records.connectors": (
        "ConnectionState",
        "Connector",
        "FetchedFile",
        "IngestRequest",
        "IngestResponse",
        "MediaSink",
        "NewEvent",
        "OptionalCalls",
        "QRCode",
        "Session",
    ),
    "hookgw.records.dashboard_pages": ("DashboardPage",),
    "hookgw.records.deliveries": ("Attempt", "Delivery", "DeliveryState", "LaneState", "Outcome", "Outgoing"),
    "hookgw.records.destinations": ("OutgoingDelivery", "OutgoingStream", "Response"),
    "hookgw.kernel.errors": (
        "Conflict",
        "EventLeftOut",
        "HookgwError",
        "Invalid",
        "NetworkRefused",
        "NotFound",
        "NotSupported",
        "ProofRefused",
        "TooLarge",
        "Unavailable",
    ),
    "hookgw.records.events": ("Event", "EventKind", "event_id_of"),
    "hookgw.app.gateway": ("Gateway",),
    "hookgw.records.instances": ("InstanceSettings",),
    "hookgw.kernel.sentences": ("Sentence",),
    "hookgw.records.messages": (
        "Contact",
        "ContactMessage",
        "LocationMessage",
        "MediaKind",
        "MediaMessage",
        "Message",
        "MessageKey",
        "MessageQuery",
        "ReactionMessage",
        "TemplateMessage",
        "TextMessage",
    ),
    "hookgw.plugins.gateway_protocol": ("PluginGateway",),
    "hookgw.plugins.hookspecs": ("hookimpl",),
    "hookgw.records.api_keys": ("Right",),
    "hookgw.kernel.recent": ("Recent",),
    "hookgw.records.problems": ("Problem", "ProblemKind", "ProblemReport"),
    "hookgw.records.registrations": ("Registration",),
    "hookgw.kernel.network_json": ("NetworkEvents", "decode_json"),
    "hookgw.records.chats": ("chat_names", "jids_of", "plain_jid"),
    "hookgw.connectors.whatsapp_numbers": ("whatsapp_chat_of", "whatsapp_number_of"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Attempt",
    "Conflict",
    "ConnectionState",
    "Connector",
    "Contact",
    "ContactMessage",
    "DashboardPage",
    "Delivery",
    "DeliveryState",
    "Event",
    "EventKind",
    "EventLeftOut",
    "FetchedFile",
    "Gateway",
    "HookgwError",
    "IngestRequest",
    "IngestResponse",
    "InstanceSettings",
    "Invalid",
    "LaneState",
    "LocationMessage",
    "MediaKind",
    "MediaMessage",
    "MediaSink",
    "Message",
    "MessageKey",
    "MessageQuery",
    "NetworkEvents",
    "NetworkRefused",
    "NewEvent",
    "NotFound",
    "NotSupported",
    "OptionalCalls",
    "Outcome",
    "Outgoing",
    "OutgoingDelivery",
    "OutgoingStream",
    "PluginGateway",
    "Problem",
    "ProblemKind",
    "ProblemReport",
    "ProofRefused",
    "QRCode",
    "ReactionMessage",
    "Recent",
    "Registration",
    "Response",
    "Right",
    "Sentence",
    "Session",
    "TemplateMessage",
    "TextMessage",
    "TooLarge",
    "Unavailable",
    "__version__",
    "chat_names",
    "decode_json",
    "describes",
    "event_id_of",
    "hookimpl",
    "jids_of",
    "plain_jid",
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
