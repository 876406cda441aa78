"""The settings of a gateway, typed, each with its default. No I/O.

:mod:`hookgw.config` reads them from a file and the environment. The names of the main keys are part
of the interface (DESIGN.md, section 8).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hookgw.units import Duration, Size


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of keys; an unknown key stops the start."""


class ServerSettings(Section):
    """Where and how the HTTP interface listens."""

    bind: tuple[str, ...] = ("127.0.0.1:8080",)
    base_path: str = ""
    public_url: str | None = None
    shutdown_grace: Duration = Duration(10)
    keep_alive_timeout: Duration = Duration(30)
    max_body: Size = Size(2**20)
    max_batch_body: Size = Size(16 * 2**20)
    max_batch_events: int = 10_000


class AuthSettings(Section):
    """Who may do everything."""

    global_key: str | None = None


class StorageSettings(Section):
    """Where things last, and for how long."""

    path: str = "data/hookgw.db"
    retention: Duration = Duration(3 * 86400)


class InstancesSettings(Section):
    """How instances come to be."""

    auto_create: bool = True


class EventsSettings(Section):
    """What is asked of events."""

    validate: Literal["off", "warn", "strict"] = "warn"
    max_data: Size = Size(2**20)


class DeliverySettings(Section):
    """How events are delivered; a registration can override what concerns it (DESIGN.md, section 5)."""

    allow_networks: tuple[str, ...] = ()
    connect_timeout: Duration = Duration(5)
    timeout: Duration = Duration(15)
    max_age: Duration = Duration(3 * 86400)
    schedule: tuple[Duration, ...] = (
        Duration(5),
        Duration(15),
        Duration(30),
        Duration(60),
        Duration(120),
        Duration(300),
        Duration(600),
    )
    jitter: float = 0.1
    unreachable_first_wait: Duration = Duration(1)
    unreachable_max_wait: Duration = Duration(300)
    retry_after_max: Duration = Duration(3600)
    disable_after: Duration = Duration(5 * 86400)
    max_answer: Size = Size(64 * 2**10)
    kept_answer: Size = Size(4 * 2**10)
    lane_buffer: int = 256
    lane_idle: Duration = Duration(60)


class PluginsSettings(Section):
    """Which plugins are loaded, and with what options."""

    folders: tuple[str, ...] = ("plugins",)
    names: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    first_party: bool = True
    hook_timeout: Duration = Duration(10)
    options: dict[str, Any] = {}


class LogSettings(Section):
    """What is logged, and how."""

    format: Literal["auto", "text", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(Section):
    """Everything that can be set."""

    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()
    storage: StorageSettings = StorageSettings()
    instances: InstancesSettings = InstancesSettings()
    events: EventsSettings = EventsSettings()
    delivery: DeliverySettings = DeliverySettings()
    global_webhooks: tuple[dict[str, Any], ...] = ()
    plugins: PluginsSettings = PluginsSettings()
    log: LogSettings = LogSettings()
