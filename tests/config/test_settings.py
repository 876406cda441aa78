"""The settings: fixed defaults, and no accidental changes."""

import msgspec
import pytest

from tests.public.config import DeliverySettings, PluginsSettings, Settings, known_keys
from tests.public.kernel import Duration, Size

SCHEDULE = ["5s", "15s", "30s", "1m", "2m", "5m", "10m"]


def test_the_defaults_are_those_of_the_interface() -> None:
    settings = Settings()
    assert settings.server.bind == ("127.0.0.1:8080",)
    assert (settings.server.base_path, settings.server.public_url) == ("", None)
    assert str(settings.server.shutdown_grace) == "10s"
    assert settings.auth.global_key is None
    assert (settings.storage.path, str(settings.storage.retention)) == ("data/hookgw.db", "3d")
    assert str(settings.storage.history_limit) == "1GiB"
    assert settings.instances.auto_create is True
    assert settings.events.validate == "warn"
    assert settings.global_webhooks == ()
    assert (settings.plugins.folders, settings.plugins.disabled, settings.plugins.options) == (
        ("plugins",),
        (),
        {},
    )
    assert (settings.log.format, settings.log.level) == ("auto", "info")


def test_the_defaults_of_delivery_are_those_of_the_interface() -> None:
    delivery = DeliverySettings()
    assert [str(wait) for wait in delivery.schedule] == SCHEDULE
    assert delivery.allow_networks == ()
    assert delivery.jitter == 0.1
    durations = ("connect_timeout", "timeout", "max_age", "disable_after", "retry_after_max")
    assert [str(getattr(delivery, name)) for name in durations] == ["5s", "30s", "3d", "5d", "1h"]
    assert (str(delivery.unreachable_first_wait), str(delivery.unreachable_max_wait)) == ("50ms", "5m")
    assert (str(delivery.max_answer), str(delivery.kept_answer)) == ("64KiB", "4KiB")


def test_every_time_is_a_duration_and_every_amount_of_bytes_a_size() -> None:
    """So that it is written with a unit; a bare number is a count or a part."""
    bare = {key.path for key in known_keys() if type(key.default) in (int, float)}
    assert bare == {
        "auth.failed_attempts",
        "auth.global_key_rate",
        "auth.instance_key_rate",
        "server.max_batch_events",
        "server.max_connections",
        "server.max_connections_per_address",
        "server.max_requests",
        "events.max_values",
        "delivery.host_connections",
        "delivery.jitter",
        "delivery.lane_buffer",
        "limits.deliveries",
        "limits.registration_deliveries",
        "limits.instance_reserved_deliveries",
        "operations.backlog_threshold",
    }
    united = {type(key.default) for key in known_keys()}
    assert {Duration, Size} <= united


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().log = None  # type: ignore[misc, assignment]
    with pytest.raises(AttributeError):
        Settings().log.level = "debug"  # type: ignore[misc]


def test_the_options_of_plugins_are_not_shared() -> None:
    assert PluginsSettings().options is not PluginsSettings().options


def test_an_unknown_key_is_refused_by_the_types_too() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `lvl`"):
        msgspec.convert({"log": {"lvl": "info"}}, Settings)
