"""The responses of the HTTP API as types, which are also the schemas of ``/openapi.json``.

The docstrings are part of that document; ``Attributes`` describes the fields. :mod:`hookgw.web.present`
converts records to these types. A field that may be absent has the type ``UnsetType``; all others are always
present.
"""

from hookgw.deliveries.responses import Attempt, Cancelled, Delivery, DeliveryPage, Lane, Replayed, Report
from hookgw.events.responses import Emitted, Erased, Event, Kind
from hookgw.instances.responses.accounts import (
    Capabilities,
    ChangedSettings,
    ConnectorOptions,
    NamedSettings,
    Presence,
    Settings,
)
from hookgw.instances.responses.instances import (
    Code,
    Connection,
    Connector,
    Counts,
    CreatedInstance,
    IngestUrl,
    Instance,
    ListedInstance,
    NamedState,
    OlderInstance,
    Switch,
)
from hookgw.keys.responses import CreatedKey, Key
from hookgw.messages.responses.chats import (
    Chat,
    Contact,
    FileSize,
    FoundMessage,
    FoundMessages,
    Group,
    LastMessage,
    MarkedRead,
    MediaFile,
    MessagePage,
    MessageStatus,
    Participant,
    Picture,
    ShownPresence,
)
from hookgw.messages.responses.messages import (
    DeletedMessage,
    EditedMessage,
    FoundNumber,
    SentKey,
    SentMessage,
)
from hookgw.operations.responses.audit import Actor, AuditEntry, AuditPage, FieldChange
from hookgw.operations.responses.jobs import Job
from hookgw.operations.responses.nodes import Node
from hookgw.operations.responses.storage import Backup
from hookgw.web.responses.common import (
    About,
    ApiError,
    Backlog,
    Done,
    DoneMessage,
    Health,
    Messages,
    Started,
    ValidKey,
)
from hookgw.webhooks.responses import ListedRegistration, PublicKey, Registration, RegistrationPage, Secret

__all__ = [
    "About",
    "Actor",
    "ApiError",
    "Attempt",
    "AuditEntry",
    "AuditPage",
    "Backlog",
    "Backup",
    "Cancelled",
    "Capabilities",
    "ChangedSettings",
    "Chat",
    "Code",
    "Connection",
    "Connector",
    "ConnectorOptions",
    "Contact",
    "Counts",
    "CreatedInstance",
    "CreatedKey",
    "DeletedMessage",
    "Delivery",
    "DeliveryPage",
    "Done",
    "DoneMessage",
    "EditedMessage",
    "Emitted",
    "Erased",
    "Event",
    "FieldChange",
    "FileSize",
    "FoundMessage",
    "FoundMessages",
    "FoundNumber",
    "Group",
    "Health",
    "IngestUrl",
    "Instance",
    "Job",
    "Key",
    "Kind",
    "Lane",
    "LastMessage",
    "ListedInstance",
    "ListedRegistration",
    "MarkedRead",
    "MediaFile",
    "MessagePage",
    "MessageStatus",
    "Messages",
    "NamedSettings",
    "NamedState",
    "Node",
    "OlderInstance",
    "Participant",
    "Picture",
    "Presence",
    "PublicKey",
    "Registration",
    "RegistrationPage",
    "Replayed",
    "Report",
    "Secret",
    "SentKey",
    "SentMessage",
    "Settings",
    "ShownPresence",
    "Started",
    "Switch",
    "ValidKey",
]
