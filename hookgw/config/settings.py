"""The settings of a gateway, typed, each with its default. No I/O.

:mod:`hookgw.config.load` reads them from a file and the environment, :mod:`hookgw.config.rules` says which
values make sense. ``docs/configuration.md`` and ``config.example.yaml`` name every key. The names of
the keys are part of the interface. The string under a key is its meaning in the reference.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hookgw.config.refused_ports import REFUSED_PORTS
from hookgw.models.masking import repr_without
from hookgw.models.units import DAY, Duration, Size


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of keys; an unknown key stops the start."""


class TlsSettings(Section, frozen=True, kw_only=True):
    """What the HTTP interface is secured with."""

    certificate: str | None = None
    """A PEM file with the certificate and those that it was issued by; null or empty: plain HTTP."""
    key: str | None = None
    """A PEM file with its private key."""
    key_password: str | None = None
    """What opens the key, where it is encrypted."""

    __repr__ = repr_without("key_password")


class ServerSettings(Section, frozen=True, kw_only=True):
    """Where and how the HTTP interface listens."""

    bind: tuple[str, ...] = ("127.0.0.1:8080",)
    """Where to listen: host:port, [ipv6]:port, unix:/path or fd://number; port 0 takes a free one."""
    base_path: str = ""
    """What every path begins with, for example /hooks; empty for none."""
    public_url: str | None = None
    """The address under which others reach the gateway; null where it has none."""
    tls: TlsSettings = TlsSettings()
    shutdown_grace: Duration = Duration(10)
    """How long open requests and attempts may take to finish at shutdown."""
    keep_alive_timeout: Duration = Duration(30)
    """How long a client's idle connection is kept."""
    header_timeout: Duration = Duration(10)
    """How long a client may take for the head of a request, on a new connection with the TLS handshake."""
    body_timeout: Duration = Duration(60)
    """How long a client may take to send a body."""
    write_timeout: Duration = Duration(30)
    """How long a client may leave an answer unread."""
    max_connections: int = 4096
    """The most connections, and at most half of the files that may be open; see operations.md."""
    max_connections_per_address: int = 512
    """The most connections from one IPv4 address or IPv6 /64, save from trusted proxies and Unix sockets."""
    max_requests: int = 1024
    """The most requests that are worked on at a time; beyond that 503."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks, and unix for Unix sockets, whose x-forwarded-for is believed."""
    max_header: Size = Size(16 * 2**10)
    """The largest head of a request: its first line and headers."""
    max_body: Size = Size(2**20)
    """The largest body of a request."""
    max_batch_body: Size = Size(16 * 2**20)
    """The largest body of a batch of events."""
    max_batch_events: int = 10_000
    """The most events in one batch."""


class AuthSettings(Section, frozen=True, kw_only=True):
    """Who may do everything."""

    global_key: str | None = None
    """The global key; null or empty: one is made at the first start, shown once and kept hashed."""
    instance_key_rate: int = 1000
    """The most requests a second with one instance key; twice as many may come at once. 0: no limit."""
    global_key_rate: int = 0
    """The most requests a second with one global key, likewise; 0: no limit."""
    failed_attempts: int = 20
    """How many wrong keys an address may show in a window; then it gets 429. 0: any number."""
    failed_window: Duration = Duration(60)
    """How long that window is, from the first wrong key."""

    __repr__ = repr_without("global_key")


class StorageSettings(Section, frozen=True, kw_only=True):
    """Where things last, and for how long."""

    path: str = "data/hookgw.db"
    """The data file; its folder is made where it is missing."""
    retention: Duration = Duration(3 * DAY)
    """How long finished deliveries and the ids of events are kept; 0 keeps none."""
    history_limit: Size = Size(2**30)
    """How much disk the finished deliveries may take, about; the oldest go first."""
    master_key: str | None = None
    """Seals registrations and instances on disk: base64 of 32 bytes; null or empty: they are in the clear."""
    master_key_file: str | None = None
    """A file that holds the master key, in the place of master_key."""
    old_master_keys: tuple[str, ...] = ()
    """Former master keys: what they sealed is sealed anew at start with the present one."""

    __repr__ = repr_without("master_key", "old_master_keys")


class InstancesSettings(Section, frozen=True, kw_only=True):
    """How instances come to be."""

    auto_create: bool = True
    """Whether setting a registration with the global key makes an instance that does not exist."""


class EventsSettings(Section, frozen=True, kw_only=True):
    """What is asked of events."""

    validate: Literal["off", "warn", "strict"] = "warn"
    """Whether payloads are held to the schema of their kind: off, warn (a log line) or strict (400)."""
    max_data: Size = Size(2**20)
    """The largest payload (data) of one event."""


class DeliverySettings(Section, frozen=True, kw_only=True):
    """How events are delivered; a registration can override what concerns it."""

    allow_networks: tuple[str, ...] = ()
    """Private networks that receivers may be in, for example 10.1.0.0/16; all others are refused."""
    refused_ports: tuple[int, ...] = tuple(REFUSED_PORTS)
    """Ports that are never dialled: by default those of shells, mail, databases and the like."""
    proxy: str | None = None
    """What requests go through, http://[user:password@]host:port or socks5://…; null for nothing."""
    connect_timeout: Duration = Duration(5)
    """How long resolving and connecting may take."""
    timeout: Duration = Duration(15)
    """How long a whole attempt may take, headers and body."""
    max_age: Duration = Duration(3 * DAY)
    """How long an event is tried while its receiver is unreachable."""
    schedule: tuple[Duration, ...] = (
        Duration(5),
        Duration(15),
        Duration(30),
        Duration(60),
        Duration(120),
        Duration(300),
        Duration(600),
    )
    """The waits between the attempts of a delivery that fails; an empty list means one attempt."""
    jitter: float = 0.1
    """How much longer a wait may be, by chance, as a part of it: 0 to 1. It is never shorter."""
    unreachable_first_wait: Duration = Duration(1)
    """The first wait for a receiver that is unreachable; each further one is twice as long."""
    unreachable_max_wait: Duration = Duration(300)
    """The longest of those waits."""
    retry_after_max: Duration = Duration(3600)
    """The longest wait that a receiver can ask for with Retry-After."""
    disable_after: Duration = Duration(5 * DAY)
    """A registration that fails for so long without one success is disabled."""
    max_answer: Size = Size(64 * 2**10)
    """How much of a receiver's answer is read."""
    kept_answer: Size = Size(4 * 2**10)
    """How much of a receiver's answer is kept with the attempt."""
    lane_buffer: int = 256
    """How many deliveries a lane holds in memory; the rest of its backlog stays on disk."""
    lane_idle: Duration = Duration(60)
    """A lane with nothing to do for so long closes its connection and ends."""

    __repr__ = repr_without()


class LimitsSettings(Section, frozen=True, kw_only=True):
    """How much may wait for receivers."""

    deliveries: int = 5_000_000
    """The most pending deliveries in all; 0 for no limit."""
    bytes: Size = Size(10 * 2**30)
    """The most bytes of payload of all pending deliveries; 0 for no limit."""
    registration_deliveries: int = 2_000_000
    """The most pending deliveries of one registration; 0 for no limit."""
    registration_bytes: Size = Size(4 * 2**30)
    """The most bytes of payload of one registration's pending deliveries; 0 for no limit."""
    on_full: Literal["refuse", "drop_oldest"] = "refuse"
    """At a limit: refuse (producers get 503) or drop_oldest (the oldest become dead letters)."""


class OperationsSettings(Section, frozen=True, kw_only=True):
    """Who is told of what hookgw itself goes through."""

    url: str | None = None
    """Where operational events are delivered; null for nowhere."""
    events: tuple[str, ...] = ()
    """Kinds of operational events that go there; an empty list means all."""
    headers: dict[str, str] = {}
    """Headers that are sent with them."""
    secret: str | None = None
    """The secret that signs them, whsec_ and base64; null: one is made once and kept."""
    backlog_threshold: int = 10_000
    """The pending deliveries of one registration from which its backlog is high; 0 for never."""

    __repr__ = repr_without("headers", "secret")


class PluginsSettings(Section, frozen=True, kw_only=True):
    """Which plugins are loaded, and with what options."""

    folders: tuple[str, ...] = ("plugins",)
    """Folders whose modules and packages are plugins."""
    names: tuple[str, ...] = ()
    """Importable modules that are plugins, for example company.hooks."""
    disabled: tuple[str, ...] = ()
    """Plugins that are not loaded, by name."""
    optional: tuple[str, ...] = ()
    """Plugins that do not stop the start when they cannot be loaded."""
    order: tuple[str, ...] = ()
    """Plugins whose hooks are called first, in this order; the others follow as they are found."""
    first_party: bool = True
    """Whether the plugins that come with hookgw are loaded."""
    hook_timeout: Duration = Duration(10)
    """How long one call of an async hook may take."""
    options: dict[str, Any] = {}
    """Options of plugins, a block for each by its name."""

    __repr__ = repr_without("options")


class LogSettings(Section, frozen=True, kw_only=True):
    """What is logged, and how."""

    format: Literal["auto", "text", "json"] = "auto"
    """text, json (one object a line) or auto: text on a terminal, json elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important level that is logged: debug, info, warning or error."""


class Settings(Section, frozen=True, kw_only=True):
    """Everything that can be set."""

    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()
    storage: StorageSettings = StorageSettings()
    instances: InstancesSettings = InstancesSettings()
    events: EventsSettings = EventsSettings()
    delivery: DeliverySettings = DeliverySettings()
    limits: LimitsSettings = LimitsSettings()
    operations: OperationsSettings = OperationsSettings()
    global_webhooks: tuple[dict[str, Any], ...] = ()
    """Registrations that hear every instance, each as the body of a set."""
    plugins: PluginsSettings = PluginsSettings()
    log: LogSettings = LogSettings()

    __repr__ = repr_without("global_webhooks")


UNIX = "unix"
"""Stands for the peers on Unix sockets in a list of trusted proxies."""
