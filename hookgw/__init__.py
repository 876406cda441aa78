"""hookgw: a durable webhook gateway for messaging instances.

Plugin authors import from here; every name is stable within a major version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgw._lazy import names_of
from hookgw._version import __version__ as __version__

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway as Gateway
    from hookgw.connectors.whatsapp_numbers import whatsapp_chat_of as whatsapp_chat_of
    from hookgw.connectors.whatsapp_numbers import whatsapp_number_of as whatsapp_number_of
    from hookgw.kernel.errors import Conflict as Conflict
    from hookgw.kernel.errors import EventLeftOut as EventLeftOut
    from hookgw.kernel.errors import HookgwError as HookgwError
    from hookgw.kernel.errors import Invalid as Invalid
    from hookgw.kernel.errors import NetworkRefused as NetworkRefused
    from hookgw.kernel.errors import NotFound as NotFound
    from hookgw.kernel.errors import NotSupported as NotSupported
    from hookgw.kernel.errors import ProofRefused as ProofRefused
    from hookgw.kernel.errors import TooLarge as TooLarge
    from hookgw.kernel.errors import Unavailable as Unavailable
    from hookgw.kernel.network_json import NetworkEvents as NetworkEvents
    from hookgw.kernel.network_json import decode_json as decode_json
    from hookgw.kernel.recent import Recent as Recent
    from hookgw.kernel.sentences import Sentence as Sentence
    from hookgw.plugins.gateway_protocol import PluginGateway as PluginGateway
    from hookgw.plugins.hookspecs import hookimpl as hookimpl
    from hookgw.records.api_keys import Right as Right
    from hookgw.records.chats import ChatFields as ChatFields
    from hookgw.records.chats import chat_names as chat_names
    from hookgw.records.chats import jids_of as jids_of
    from hookgw.records.chats import plain_jid as plain_jid
    from hookgw.records.connectors import ConnectionState as ConnectionState
    from hookgw.records.connectors import Connector as Connector
    from hookgw.records.connectors import FetchedFile as FetchedFile
    from hookgw.records.connectors import IngestRequest as IngestRequest
    from hookgw.records.connectors import IngestResponse as IngestResponse
    from hookgw.records.connectors import MediaSink as MediaSink
    from hookgw.records.connectors import NewEvent as NewEvent
    from hookgw.records.connectors import OptionalCalls as OptionalCalls
    from hookgw.records.connectors import QRCode as QRCode
    from hookgw.records.connectors import Session as Session
    from hookgw.records.dashboard_pages import DashboardPage as DashboardPage
    from hookgw.records.deliveries import Attempt as Attempt
    from hookgw.records.deliveries import Delivery as Delivery
    from hookgw.records.deliveries import DeliveryState as DeliveryState
    from hookgw.records.deliveries import LaneState as LaneState
    from hookgw.records.deliveries import Outcome as Outcome
    from hookgw.records.deliveries import Outgoing as Outgoing
    from hookgw.records.destinations import OutgoingDelivery as OutgoingDelivery
    from hookgw.records.destinations import OutgoingStream as OutgoingStream
    from hookgw.records.destinations import Response as Response
    from hookgw.records.events import Event as Event
    from hookgw.records.events import EventKind as EventKind
    from hookgw.records.events import event_id_of as event_id_of
    from hookgw.records.instances import InstanceSettings as InstanceSettings
    from hookgw.records.messages import Contact as Contact
    from hookgw.records.messages import ContactMessage as ContactMessage
    from hookgw.records.messages import LocationMessage as LocationMessage
    from hookgw.records.messages import MediaKind as MediaKind
    from hookgw.records.messages import MediaMessage as MediaMessage
    from hookgw.records.messages import Message as Message
    from hookgw.records.messages import MessageKey as MessageKey
    from hookgw.records.messages import MessageQuery as MessageQuery
    from hookgw.records.messages import ReactionMessage as ReactionMessage
    from hookgw.records.messages import TemplateMessage as TemplateMessage
    from hookgw.records.messages import TextMessage as TextMessage
    from hookgw.records.problems import Problem as Problem
    from hookgw.records.problems import ProblemKind as ProblemKind
    from hookgw.records.problems import ProblemReport as ProblemReport
    from hookgw.records.registrations import Registration as Registration
    from hookgw.web.openapi.plugin_describe import describes as describes

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
    "hookgw.records.chats": ("ChatFields", "chat_names", "jids_of", "plain_jid"),
    "hookgw.connectors.whatsapp_numbers": ("whatsapp_chat_of", "whatsapp_number_of"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(["__version__", *_HOME_OF])


__getattr__ = names_of(__name__, _HOME_OF)
