"""The responses of the HTTP API as types, which are also the schemas of ``/openapi.json``.

The docstrings are part of that document; ``Attributes`` describes the fields. :mod:`hookgw.api.present`
converts records to these types. A field that may be absent has the type ``UnsetType``; all others are always
present.
"""

from hookgw.api.responses.accounts import (
    Capabilities,
    ChangedSettings,
    InstanceOptions,
    NamedSettings,
    Presence,
    Settings,
)
from hookgw.api.responses.audit import Actor, AuditEntry, AuditPage, FieldChange
from hookgw.api.responses.chats import Chat, Contact, LastMessage, MarkedRead, ShownPresence
from hookgw.api.responses.common import About, Backlog, Done, DoneMessage, Error, Health, Messages, Started
from hookgw.api.responses.deliveries import Attempt, Delivery, DeliveryPage, Lane, Replayed, Report
from hookgw.api.responses.events import Emitted, Event, Kind
from hookgw.api.responses.instances import (
    Code,
    Connection,
    Counts,
    CreatedInstance,
    IngestUrl,
    Instance,
    ListedInstance,
    NamedState,
)
from hookgw.api.responses.jobs import Job
from hookgw.api.responses.keys import CreatedKey, Key
from hookgw.api.responses.registrations import (
    Condition,
    ListedRegistration,
    PublicKey,
    Registration,
    RegistrationPage,
    Retry,
    Secret,
)

__all__ = [
    "About",
    "Actor",
    "Attempt",
    "AuditEntry",
    "AuditPage",
    "Backlog",
    "Capabilities",
    "ChangedSettings",
    "Chat",
    "Code",
    "Condition",
    "Connection",
    "Contact",
    "Counts",
    "CreatedInstance",
    "CreatedKey",
    "Delivery",
    "DeliveryPage",
    "Done",
    "DoneMessage",
    "Emitted",
    "Error",
    "Event",
    "FieldChange",
    "Health",
    "IngestUrl",
    "Instance",
    "InstanceOptions",
    "Job",
    "Key",
    "Kind",
    "Lane",
    "LastMessage",
    "ListedInstance",
    "ListedRegistration",
    "MarkedRead",
    "Messages",
    "NamedSettings",
    "NamedState",
    "Presence",
    "PublicKey",
    "Registration",
    "RegistrationPage",
    "Replayed",
    "Report",
    "Retry",
    "Secret",
    "Settings",
    "ShownPresence",
    "Started",
]
