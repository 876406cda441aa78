"""The typed settings of a gateway, each with its default. No I/O.

:mod:`hookgw.config.load` reads them from a file and the environment; :mod:`hookgw.config.rules` checks each
value by the rules in its type, and values that must fit together. The names of the keys are part of the
interface. The string under each key is its description in ``docs/configuration.md`` and
``config.example.yaml``; a test compares them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hookgw.config import values
from hookgw.config.brand import check_logo, parse_colour
from hookgw.config.proxy_url import parse_proxy
from hookgw.config.refused_ports import REFUSED_PORTS
from hookgw.kernel.masking import repr_without
from hookgw.kernel.units import DAY, Duration, Size


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of keys; an unknown key is an error."""


class TlsSettings(Section, frozen=True, kw_only=True):
    """TLS of the HTTP API."""

    certificate: str | None = None
    """A PEM file with the certificate and its intermediates; null or empty for plain HTTP."""
    key: str | None = None
    """A PEM file with the private key of the certificate."""
    key_password: str | None = None
    """The password of an encrypted private key."""

    __repr__ = repr_without("key_password")


class ServerSettings(Section, frozen=True, kw_only=True):
    """Where the HTTP API listens, and its limits."""

    bind: tuple[Annotated[str, values.bind], ...] = ("127.0.0.1:8080",)
    """Where to listen: host:port, [ipv6]:port (IPv6 alone), unix:/path, fd://number; port 0: a free one."""
    base_path: Annotated[str, values.base_path] = ""
    """A prefix of every path, for example /hooks; empty for none."""
    public_url: Annotated[str, values.public_url] | None = None
    """The URL under which others reach the gateway; null if there is none."""
    tls: TlsSettings = TlsSettings()
    shutdown_grace: values.AnyTime = Duration(10)
    """How long open requests and attempts may take to finish at shutdown."""
    keep_alive_timeout: values.SomeTime = Duration(130)
    """How long an idle client connection stays open; longer than a proxy in front keeps it."""
    header_timeout: values.SomeTime = Duration(10)
    """How long a client may take to send a request head; on a new connection, with TLS handshake."""
    body_timeout: values.SomeTime = Duration(60)
    """How long a client may take to send a request body."""
    write_timeout: values.SomeTime = Duration(30)
    """How long a client may take to read a response."""
    # The rest of the open files stays free for lanes, so that clients cannot starve deliveries.
    max_connections: values.Count = 4096
    """Limit of client connections, and at most half of the open-file limit; see operations.md."""
    # A /64, not an address: one IPv6 host can use every address of its /64.
    max_connections_per_address: values.Count = 512
    """Limit per IPv4 address or IPv6 /64; trusted proxies and Unix sockets are exempt."""
    max_requests: values.Count = 1024
    """Limit of requests in progress; further requests get 503."""
    trusted_proxies: tuple[Annotated[str, values.trusted_proxy], ...] = ()
    """Networks of proxies whose x-forwarded-for, -proto and -host count; unix: Unix sockets."""
    compatibility: Literal["hookgw", "evolution"] = "hookgw"
    """evolution: the version at /, 401 and messages of wrong fields as Evolution API; see migrating.md."""
    cors_origins: tuple[Annotated[str, values.cors_origin], ...] = ()
    """Origins (https://crm.example) whose pages may call the API from a browser; see http.md."""
    max_header: values.SomeBytes = Size(16 * 2**10)
    """The largest request head: request line and headers."""
    max_body: values.SomeBytes = Size(2**20)
    """The largest request body."""
    max_batch_body: values.SomeBytes = Size(16 * 2**20)
    """The largest body of a batch of events, or of a request of a network."""
    max_batch_events: values.Count = 10_000
    """The largest number of events in a batch."""
    max_upload: values.SomeBytes = Size(16 * 2**20)
    """The largest body of a call that sends a file (a form, or base64); up to a quarter of body_memory."""
    body_memory: values.Memory = Size(128 * 2**20)
    """The memory for request bodies, which count twice; beyond it, clients wait or get 503."""
    response_memory: Annotated[Size, values.between(Size(8 * 2**20), Size(2**40))] = Size(64 * 2**20)
    """The memory for responses that clients have yet to read; beyond it, clients wait or get 503."""

    @property
    def address(self) -> str:
        """The beginning of links to the gateway: ``public_url``, or without it a path."""
        return (self.public_url or self.base_path).rstrip("/")

    @property
    def is_evolution(self) -> bool:
        """Whether responses are those of Evolution API, where they differ from hookgw's own."""
        return self.compatibility == "evolution"


class BrandSettings(Section, frozen=True, kw_only=True):
    """What the dashboard shows instead of hookgw's own name and colour."""

    name: Annotated[str, values.brand_name] | None = None
    """The name on every page; null for hookgw."""
    logo: Annotated[str, values.parsed_by(check_logo)] | None = None
    """A picture beside the name: a file (SVG, PNG, JPEG, WebP, GIF) or an https URL; null for none."""
    colour: Annotated[str, values.parsed_by(parse_colour)] | None = None
    """The colour of buttons and links, such as #0b6b57; each theme has a shade of it that can be read."""


class DashboardSettings(Section, frozen=True, kw_only=True):
    """The pages for people, at /dashboard."""

    enabled: bool = True
    """Whether hookgw serves the dashboard."""
    brand: BrandSettings = BrandSettings()


class AuthSettings(Section, frozen=True, kw_only=True):
    """The global key, and the limits per key and address."""

    global_key: Annotated[str, values.global_key] | None = None
    """The global key; null or empty: the first start creates one, shows it once and stores its hash."""
    instance_key_rate: values.CountOrNone = 1000
    """Requests per second with one key of limited reach; bursts of twice as many are allowed. 0: no limit."""
    global_key_rate: values.CountOrNone = 0
    """Requests per second with one global key; bursts of twice as many are allowed. 0: no limit."""
    failed_attempts: values.CountOrNone = 20
    """Wrong keys that an address may send per window before it gets 429. 0: no limit."""
    failed_window: values.SomeTime = Duration(60)
    """The length of that window, from the first wrong key."""
    proxy_header: Annotated[str, values.proxy_header] | None = None
    """A header in which a trusted proxy names who signed in, such as x-forwarded-user; see portal.md."""
    users: dict[str, str] = {}
    """The name of a global key for each person whom that header may name; their dashboard has its rights."""

    __repr__ = repr_without("global_key")


class StorageSettings(Section, frozen=True, kw_only=True):
    """Where data is stored, and for how long."""

    engine: Literal["sqlite", "postgresql"] = "sqlite"
    """Where data is stored: in a file (sqlite), or in a database that nodes share (postgresql)."""
    path: Annotated[str, values.named, values.in_a_file] = "data/hookgw.db"
    """The data file of sqlite. Its folder is created if it is missing."""
    url: Annotated[str, values.database_url] | None = None
    """The database of postgresql: postgresql://user:password@host:port/database."""
    schema: Annotated[str, values.schema_name] = "hookgw"
    """The schema in that database that holds the tables; it is created if it is missing."""
    retention: values.AnyTime = Duration(3 * DAY)
    """How long finished deliveries are kept; 0 keeps none."""
    history_limit: Annotated[Size, values.some_room("storage.retention: 0 keeps none")] = Size(2**30)
    """Approximate disk space for finished deliveries; the instances with the most lose their oldest."""
    figures_limit: Size = Size(256 * 2**20)
    """Approximate disk space for figures; beyond it, hours replace minutes, and old hours are removed."""
    audit: values.AnyTime = Duration(90 * DAY)
    """How long the entries of the audit are kept; 0 keeps them for a minute."""
    backup_folder: str | None = None
    """The folder for backups that a client of the HTTP API asks for; null or empty for none."""
    min_free: values.AnySize = Size(512 * 2**20)
    """With less free disk space than this, events are refused with 503; 0 disables the check."""
    inline_commits: bool = False
    """Whether the event loop itself writes an event that comes alone (sqlite); see performance.md."""
    master_key: Annotated[str, values.master_key] | None = None
    """Encrypts registrations and instances on disk: base64 of 32 bytes; null or empty: no encryption."""
    master_key_file: str | None = None
    """A file that contains the master key, instead of master_key."""
    old_master_keys: tuple[Annotated[str, values.old_master_key], ...] = ()
    """Former master keys: records that they encrypted are encrypted with the new one at start."""

    __repr__ = repr_without("url", "master_key", "old_master_keys")


class FleetSettings(Section, frozen=True, kw_only=True):
    """This node among others that share its database."""

    node: Annotated[str, values.node_name] | None = None
    """The name of this node, unique in the fleet; null for the name of the host."""
    url: Annotated[str, values.fleet_url] | None = None
    """The URL at which other nodes reach this one, such as http://10.0.0.7:8080; null for a node alone."""
    secret: Annotated[str, values.fleet_secret] | None = None
    """A secret of 16 characters or more, the same on all nodes, by which they know each other."""

    __repr__ = repr_without("secret")


class InstancesSettings(Section, frozen=True, kw_only=True):
    """How instances are created."""

    auto_create: bool = True
    """Whether setting a registration with the global key creates a missing instance."""
    integrations: dict[str, str] = {}
    """Connectors for the integrations that clients of Evolution API name, such as WHATSAPP-BAILEYS."""
    quiet_after: Annotated[Duration, values.quiet_time] = Duration(0)
    """How long an open connection may be without an event until INSTANCE_QUIET is raised; 0: for ever."""


class EventsSettings(Section, frozen=True, kw_only=True):
    """Which events are accepted."""

    validate: Literal["off", "warn", "strict"] = "warn"
    """Payloads that violate their kind's schema: off, warn (log a line) or strict (answer 400)."""
    # SQLite stores up to 1 GB in a row: that of an event, or of the body that the envelope and plugins made.
    max_data: Annotated[Size, values.between(Size(1024), Size(2**28))] = Size(2**20)
    """The largest payload (data) of an event; 256MiB is the most."""
    max_values: Annotated[int, values.between(1000, 10_000_000)] = 100_000
    """The most JSON values (objects, lists, texts, numbers and the like) in an event."""
    keep: Literal["all", "wanted"] = "all"
    """Which payloads are kept for storage.retention: all, or wanted (those of events that a webhook gets)."""
    log_limit: Annotated[Size, values.some_room("events.keep: wanted keeps none")] = Size(2**30)
    """Approximate disk space for events that no webhook wants; instances with the most lose their oldest."""
    dedupe: values.AnyTime = Duration(8 * DAY)
    """How long an event with a known id is a duplicate, at least; 0: while the event itself is kept."""
    dedupe_limit: Annotated[Size, values.some_room("events.dedupe: 0 keeps no ids")] = Size(512 * 2**20)
    """Approximate disk space for ids of former events; the instances with the most lose their oldest."""


class MediaSettings(Section, frozen=True, kw_only=True):
    """Files that accounts receive."""

    lifetime: values.SomeTime = Duration(7 * DAY)
    """How long the link to a file, which is in an event, is valid."""
    limit: Annotated[Size, values.between(Size(1024), Size(2**40))] = Size(100 * 2**20)
    """The largest file that can be downloaded through hookgw."""


class DeliverySettings(Section, frozen=True, kw_only=True):
    """How events are delivered; a registration can override some of these."""

    allow_networks: tuple[Annotated[str, values.network], ...] = ()
    """Private networks that may contain receivers, for example 10.1.0.0/16; all others are blocked."""
    refused_ports: tuple[Annotated[int, values.between(1, 65535)], ...] = tuple(REFUSED_PORTS)
    """Ports that are never dialled; the default lists those of shells, mail, databases and the like."""
    proxy: Annotated[str, values.parsed_by(parse_proxy)] | None = None
    """A proxy for all requests: http://[user:password@]host:port or socks5://…; null for none."""
    ca_file: str | None = None
    """A PEM file with authorities to trust for all requests, beside the system's; null for none."""
    connect_timeout: values.SomeTime = Duration(5)
    """How long DNS resolution and connecting may take."""
    timeout: values.SomeTime = Duration(30)
    """How long a whole attempt may take, response body included."""
    max_age: values.SomeTime = Duration(3 * DAY)
    """How long a delivery is retried while its receiver is unreachable."""
    schedule: tuple[values.SomeTime, ...] = (
        Duration(5),
        Duration(15),
        Duration(30),
        Duration(60),
        Duration(120),
        Duration(300),
        Duration(600),
    )
    """Waits between the attempts of a failing delivery; an empty list means one attempt that was sent."""
    # Never shorter: the schedule is a promise of when a retry comes at the earliest.
    jitter: Annotated[float, values.between(0, 1)] = 0.1
    """Random extension of each wait, as a fraction of it: 0 to 1. A wait is never shortened."""
    # A single failure is not an outage: the wait starts short and grows.
    unreachable_first_wait: values.SomeTime = Duration(0.05)
    """The first wait for an unreachable receiver; each further wait is twice as long."""
    unreachable_max_wait: values.SomeTime = Duration(300)
    """The longest wait for an unreachable receiver."""
    retry_after_max: values.AnyTime = Duration(3600)
    """The longest wait that a receiver can request with Retry-After."""
    disable_after: values.SomeTime = Duration(5 * DAY)
    """A registration that fails for this long without a success is disabled."""
    # The status decides the outcome, so a longer body is cut off and does not fail the delivery.
    max_answer: values.SomeBytes = Size(64 * 2**10)
    """How much of a receiver's response is read."""
    kept_answer: Annotated[Size, values.between(0, 2**30)] = Size(4 * 2**10)
    """How much of a receiver's response is stored with the attempt."""
    # Of what was delivered, nothing is stored. Secrets in them are masked.
    kept_heads: Annotated[Size, values.between(0, 2**20)] = Size(2 * 2**10)
    """How much of the headers of a failed request, and of the response to it, is stored; 0 for nothing."""
    # Of this, one instance gets at most three quarters while others use the host.
    host_connections: Annotated[int, values.between(1, 10_000)] = 64
    """How many connections to one host (scheme, host and port) deliveries may use at a time."""
    # The former address of a host that moved may go on answering: only a new connection looks it up again.
    connection_age: values.AnyTime = Duration(300)
    """How long a connection is used before a new one replaces it, however busy it is; 0 for no limit."""
    # With the rendered bodies and requests. Of this, one instance gets at most three quarters.
    memory: values.Memory = Size(128 * 2**20)
    """How much memory deliveries may take in all; the rest of the backlog stays on disk."""
    # Of this, one instance gets at most half, so that a file at a URL has at most a quarter of it.
    # An answer of 16 MiB fits into half of the least.
    answer_memory: Annotated[Size, values.between(Size(32 * 2**20), Size(2**40))] = Size(256 * 2**20)
    """The memory for answers of receivers and networks, and for files at tenants' URLs, which count twice."""
    lane_buffer: Annotated[int, values.between(1, 100_000)] = 256
    """How many deliveries a lane holds in memory; the rest of its backlog stays on disk."""
    lane_idle: values.SomeTime = Duration(60)
    """A lane that is idle for this long ends, and an idle connection is closed after it."""

    # The proxy's URL may contain a password: even without secret fields, URLs are masked.
    __repr__ = repr_without()


class TagLimits(Section, frozen=True, kw_only=True):
    """Limits of all instances with the same value of a tag together."""

    deliveries: int = 0
    """Limit of their pending deliveries; 0 for none of its own."""
    bytes: Size = Size(0)
    """Limit of the payload bytes of these; 0 for none of its own."""
    rate: str | None = None
    """Limit of the attempts of all their deliveries, such as 20/s; null for none."""


class LimitsSettings(Section, frozen=True, kw_only=True):
    """Limits of the backlog."""

    deliveries: values.Limit = 5_000_000
    """Limit of pending deliveries in total; 0 for no limit."""
    bytes: values.LimitOfBytes = Size(10 * 2**30)
    """Limit of payload bytes of all pending deliveries; 0 for no limit."""
    registration_deliveries: values.Limit = 2_000_000
    """Limit of pending deliveries per registration; 0 for no limit."""
    registration_bytes: values.LimitOfBytes = Size(4 * 2**30)
    """Limit of payload bytes of pending deliveries per registration; 0 for no limit."""
    instance_reserved_deliveries: values.Limit = 1000
    """Up to this many pending deliveries of its events, only the total limit refuses an instance."""
    instance_reserved_bytes: values.AnySize = Size(16 * 2**20)
    """Up to this many payload bytes of them, only the total limit refuses an instance."""
    tags: dict[str, TagLimits] = {}
    """Limits of each value of a tag, with deliveries, bytes and rate: its instances share them."""
    on_full: Literal["refuse", "drop_oldest"] = "refuse"
    """At a limit: refuse (producers get 429 or 503) or drop_oldest (the oldest become dead letters)."""


class OperationsSettings(Section, frozen=True, kw_only=True):
    """Where operational events go: what hookgw reports about itself."""

    url: str | None = None
    """The URL that receives operational events; null for none."""
    events: tuple[str, ...] = ()
    """Kinds of operational events to deliver; an empty list means all."""
    headers: dict[str, str] = {}
    """Headers to send with operational events."""
    secret: str | None = None
    """The secret that signs them, whsec_ and base64; null: one is created once and stored."""
    backlog_threshold: values.Limit = 10_000
    """A registration's backlog is high from this many pending deliveries; 0 for never."""

    __repr__ = repr_without("headers", "secret")


class PluginsSettings(Section, frozen=True, kw_only=True):
    """Which plugins are loaded, and their options."""

    folders: tuple[values.Named, ...] = ("plugins",)
    """Folders that contain plugins, as modules and packages."""
    names: tuple[Annotated[str, values.module_name], ...] = ()
    """Importable modules to load as plugins, for example company.hooks."""
    disabled: tuple[values.Named, ...] = ()
    """Names of plugins that are not loaded."""
    optional: tuple[values.Named, ...] = ()
    """Names of plugins that may fail to load without stopping the start."""
    order: tuple[values.Named, ...] = ()
    """Names of plugins to call first, in this order; the others follow in the order of discovery."""
    first_party: bool = True
    """Whether to load the plugins that come with hookgw."""
    hook_timeout: values.SomeTime = Duration(10)
    """How long one call of an async hook may take."""
    block_warning: values.AnyTime = Duration(1)
    """How long the event loop may be blocked before hookgw reports what blocks it; 0 for no reports."""
    # The keys of a block are unknown here: the plugin checks them in hookgw_configure.
    options: dict[str, Any] = {}
    """Options for plugins: a block per plugin, under its name."""

    __repr__ = repr_without("options")


class LogSettings(Section, frozen=True, kw_only=True):
    """The format and level of the log."""

    format: Literal["auto", "text", "json"] = "auto"
    """text, json (one object per line) or auto: text on a terminal, json elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level to log: debug, info, warning or error."""


class Settings(Section, frozen=True, kw_only=True):
    """All settings."""

    server: ServerSettings = ServerSettings()
    dashboard: DashboardSettings = DashboardSettings()
    auth: AuthSettings = AuthSettings()
    storage: StorageSettings = StorageSettings()
    fleet: FleetSettings = FleetSettings()
    instances: InstancesSettings = InstancesSettings()
    events: EventsSettings = EventsSettings()
    media: MediaSettings = MediaSettings()
    delivery: DeliverySettings = DeliverySettings()
    limits: LimitsSettings = LimitsSettings()
    operations: OperationsSettings = OperationsSettings()
    # Read by hookgw.parsing like the body of a set, when the catalog with the plugins' kinds is known.
    global_webhooks: tuple[dict[str, Any], ...] = ()
    """Registrations that receive the events of every instance; each has the fields of a set."""
    plugins: PluginsSettings = PluginsSettings()
    log: LogSettings = LogSettings()

    __repr__ = repr_without("global_webhooks")
