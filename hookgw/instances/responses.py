"""Responses about instances and their accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from hookgw.instances.fields import OPTIONS, SETTINGS
from hookgw.kernel.fields import response_type
from hookgw.kernel.schema_parts import Length, Time
from hookgw.records.connectors import ConnectionState
from hookgw.web.responses import Backlog
from hookgw.webhooks.responses import CreatedRegistration


class Instance(Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance, with the field names that existing clients read.

    Attributes:
        instance_name: its name.
        instance_id: a UUID.
        integration: as it was requested: the connector's name, or the integration of a client of Evolution
            API; ``null`` for none.
        connector: the connector's name; ``null`` if events come only over HTTP.
        status: the state of its connection. In the response to `create`, `open` is called `connected`.
        created_at: when it was created.
        tags: names with values that operators have given it.
        options: those of its connector, secrets masked; missing without a connector.
    """

    instance_name: str
    instance_id: str
    integration: str | None
    connector: str | None
    status: Literal["open", "connecting", "close", "connected"]
    created_at: Time
    tags: dict[str, str]
    options: dict[str, Any] | UnsetType = UNSET


class OlderInstance(Instance, frozen=True, kw_only=True, rename="camel"):
    """An instance in a list, as older clients read it. What nothing has reported is `null`.

    Attributes:
        name: its name.
        owner_jid: the account.
        owner: the account, under its older name.
        profile_name: the account's name.
        profile_pic_url: the account's picture.
    """

    name: str
    owner_jid: str | None
    owner: str | None
    profile_name: str | None
    profile_pic_url: str | None


class Connector(Struct, frozen=True, kw_only=True, rename="camel"):
    """What an instance can be connected with: the `integration` of `create`.

    Attributes:
        name: its name.
        plugin: the plugin that provides it.
        calls: the calls that it answers, by the last part of their path, such as `sendText`.
        takes_requests: whether its instances have an `ingestUrl`, which the network calls.
        integrations: the integrations of Evolution API that mean it (`instances.integrations`).
        options_schema: the JSON Schema of the options of its instances, fields of `create` beside
            `instanceName`; `null` if it takes any.
    """

    name: str
    plugin: str
    calls: list[str]
    takes_requests: bool
    integrations: list[str]
    options_schema: dict[str, Any] | None


class Counts(Struct, frozen=True, kw_only=True, rename="pascal"):
    """What hookgw has stored of an account: it keeps events, and no such records, so all are 0.

    Attributes:
        message: messages.
        contact: contacts.
        chat: chats.
    """

    message: int = 0
    contact: int = 0
    chat: int = 0


class ListedInstance(Struct, frozen=True, kw_only=True, rename="camel"):
    """An instance in a list: older clients read ``instance``, newer ones the rest.

    What nothing has reported since hookgw started is `null`.

    Attributes:
        id: a UUID.
        name: its name.
        connection_status: the state of its connection.
        owner_jid: the account.
        profile_name: the account's name.
        profile_pic_url: the account's picture.
        integration: what the client that created it requested, if it is an integration of Evolution API.
        connector: the connector's name; `null` if events come only over HTTP.
        number: the option `number` of its connector, if it has one that is no secret.
        business_id: the option `businessId` likewise.
        token: its key, if the caller has it; otherwise masked.
        client_name: always `hookgw`.
        disconnection_reason_code: the `statusReason` of the last closed connection.
        disconnection_object: always `null`; `disconnectionReason` is a sentence.
        disconnection_at: when that connection was closed.
        created_at: when it was created.
        updated_at: when its options, settings or connection were changed.
        tags: names with values that operators have given it.
        setting: how its account behaves; secrets are masked.
        count: what is stored of the account.
        disconnection_reason: why the state is `close`.
        backlog: what is pending of its events.
        instance: the same instance, for older clients.
        ingest_url: where the network may call hookgw. Its last part is a secret.
    """

    id: str
    name: str
    connection_status: ConnectionState
    owner_jid: str | None
    profile_name: str | None
    profile_pic_url: str | None
    integration: Literal["WHATSAPP-BAILEYS", "WHATSAPP-BUSINESS", "EVOLUTION"] | None
    connector: str | None
    number: str | None
    business_id: str | None
    token: str
    client_name: str
    disconnection_reason_code: int | None
    disconnection_object: None
    disconnection_at: Time | None
    created_at: Time
    updated_at: Time
    tags: dict[str, str]
    setting: Settings = field(name="Setting")
    count: Counts = field(name="_count")
    backlog: Backlog
    instance: OlderInstance
    disconnection_reason: str | UnsetType = UNSET
    ingest_url: str | UnsetType = UNSET


class Code(Struct, frozen=True, kw_only=True, rename="camel"):
    """A code to scan with the account's phone.

    Attributes:
        pairing_code: a code to type instead of scanning.
        code: the text in the QR code.
        base64: the image, as a ``data:image/png;base64,…`` URL.
        count: how many codes were shown since the instance began to connect.
    """

    pairing_code: str | None
    code: str
    base64: str
    count: int


class Switch(Struct, frozen=True):
    """A way of Evolution API to pass events on. hookgw has webhooks alone.

    Attributes:
        enabled: always `false`.
    """

    enabled: bool = False


class CreatedInstance(Struct, kw_only=True, rename="camel"):
    """A new instance.

    Attributes:
        instance: the instance.
        hash: its key, which is shown only here.
        settings: how its account behaves; secrets are masked.
        websocket: what clients of Evolution API read.
        rabbitmq: what clients of Evolution API read.
        nats: what clients of Evolution API read.
        sqs: what clients of Evolution API read.
        ingest_url: where the network may call hookgw, if its connector takes calls.
        webhook: its registration, if the request had one.
        qrcode: a code to scan, if the request asked for it and the connector showed one.
        warnings: fields of the request that were ignored, if there is no `webhook` that lists them.
    """

    instance: Instance
    hash: str
    settings: Settings
    websocket: Switch = Switch()
    rabbitmq: Switch = Switch()
    nats: Switch = Switch()
    sqs: Switch = Switch()
    ingest_url: str | UnsetType = UNSET
    webhook: CreatedRegistration | UnsetType = UNSET
    qrcode: Code | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class NamedState(Struct, frozen=True, rename="camel"):
    """An instance's connection.

    Attributes:
        instance_name: the instance's name.
        state: the state of the connection.
        reason: why the state is `close`.
    """

    instance_name: str
    state: ConnectionState
    reason: str | UnsetType = UNSET


class Connection(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a connection, with a QR code if there is one to scan.

    Attributes:
        instance: the state.
        code: the text in the QR code.
        base64: the image, as a ``data:image/png;base64,…`` URL.
        pairing_code: a code to type instead of scanning.
        count: how many codes were shown since the instance began to connect.
        ingest_url: where the network may call hookgw, if its connector takes calls.
    """

    instance: NamedState
    code: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    pairing_code: str | UnsetType | None = UNSET
    count: int | UnsetType = UNSET
    ingest_url: str | UnsetType = UNSET


class TaggedInstance(Struct, frozen=True, rename="camel"):
    """The tags of an instance.

    Attributes:
        instance_name: the instance's name.
        tags: its tags.
    """

    instance_name: str
    tags: dict[str, str]


class IngestUrl(Struct, frozen=True, rename="camel"):
    """Where the network may call hookgw for an instance.

    Attributes:
        ingest_url: the URL; without `server.public_url`, its path. Its last part is a secret.
    """

    ingest_url: str


class ConnectorOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """The options of an instance and of its connector.

    Attributes:
        options: secrets are masked; a change that sends the mask keeps the stored value.
        options_schema: the JSON Schema of the options, with `writeOnly` at secrets; `null` if any are taken,
            which are then all masked.
        quiet_after: how long an open connection may be without an event; `null` for
            `instances.quiet_after`.
        catch_up: what it asks its network for after an outage.
        warnings: sentences about the change.
    """

    options: dict[str, Any]
    options_schema: dict[str, Any] | None
    quiet_after: Length | None
    catch_up: CatchUp
    warnings: list[str] | UnsetType = UNSET


if TYPE_CHECKING:  # their fields are those of the tables
    CatchUp = Any
    Settings = Any
else:
    CatchUp = next(field.type for field in OPTIONS if field.name == "catch_up")
    Settings = response_type("Settings", SETTINGS, "How an instance's account behaves.")


class NamedSettings(Struct, frozen=True, rename="camel"):
    """The settings of an instance.

    Attributes:
        instance_name: the instance's name.
        settings: its settings.
    """

    instance_name: str
    settings: Settings


class ChangedSettings(Struct, frozen=True):
    """The response of a change of settings.

    Attributes:
        settings: all settings, in the form that existing clients read.
        warnings: fields of the request that were ignored, or why the connector has not applied the settings.
    """

    settings: NamedSettings
    warnings: list[str]


class Capabilities(Struct, frozen=True):
    """Which calls an instance's connector answers.

    Attributes:
        calls: the last parts of their paths, such as `sendText`; empty without a connector.
    """

    calls: list[str]


class Presence(Struct, frozen=True):
    """The presence of an account.

    Attributes:
        presence: `available` or `unavailable`.
    """

    presence: str
