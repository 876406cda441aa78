"""The rules for values, at their bounds."""

from typing import Any

import msgspec
import pytest

from tests.public.config import (
    AuthSettings,
    InstancesSettings,
    ServerSettings,
    Settings,
    StorageSettings,
    TagLimits,
    TlsSettings,
    broken_rules,
    known_keys,
)
from tests.public.kernel import Duration, Size


def broken(path: str, value: Any) -> list[tuple[str, str]]:
    """The mistakes in the default settings with one changed value."""
    return list(broken_rules(_replaced(Settings(), path, value)))


def _replaced(section: Any, path: str, value: Any) -> Any:
    key, _, rest = path.partition(".")
    if rest:
        value = _replaced(getattr(section, key), rest, value)
    return msgspec.structs.replace(section, **{key: value})


@pytest.mark.parametrize(
    ("url", "is_right"),
    [
        *((url, True) for url in ("http://10.0.0.1:8080", "https://Hooks_1.example/", "http://[fd00::1]:1")),
        *(
            (url, False)
            for url in ("", "a:80", "ftp://a", "http://", "http://a/x", "http://a?x", "http://a#x")
        ),
        *((url, False) for url in ("http://u@a", "http://:hunter2@a", "http://a:0", "http://a:65536")),
        *(
            (url, False)
            for url in ("http://a b", " http://a", "http://a\n", "http://[::1", "http://1.2.3.4.5")
        ),
    ],
)
def test_the_address_of_a_node(url: str, is_right: bool) -> None:
    settings = _replaced(Settings(), "storage.engine", "postgresql")
    for path, value in (
        ("storage.url", "postgresql://db/hooks"),
        ("fleet.secret", "s" * 16),
        ("fleet.url", url),
    ):
        settings = _replaced(settings, path, value)
    sentence = "must be http://host:port or https://host:port, without a path."
    assert list(broken_rules(settings)) == ([] if is_right else [("fleet.url", sentence)])


def test_the_defaults_break_no_rule() -> None:
    assert list(broken_rules(Settings())) == []


TEN_YEARS = 3650 * 86400
DURATIONS = [key.path for key in known_keys() if key.kind is Duration]
MAY_BE_ZERO = {
    "instances.quiet_after",
    "plugins.block_warning",
    "server.shutdown_grace",
    "storage.retention",
    "storage.audit",
    "events.dedupe",
    "delivery.connection_age",
    "delivery.retry_after_max",
}


@pytest.mark.parametrize("path", DURATIONS)
def test_every_duration_has_an_upper_bound(path: str) -> None:
    alone = {"delivery.unreachable_first_wait", "delivery.unreachable_max_wait"}
    if path not in alone:
        assert broken(path, Duration(TEN_YEARS)) == []
    (place, sentence), *_ = broken(path, Duration(TEN_YEARS + 1))
    assert place == path
    assert "at most 3650d" in sentence


@pytest.mark.parametrize("path", DURATIONS)
def test_only_durations_that_may_be_none_may_be_zero(path: str) -> None:
    assert (broken(path, Duration(0)) == []) == (path in MAY_BE_ZERO)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (
            "server.bind",
            ("0.0.0.0:80", "[::1]:0", "localhost:65535", "unix:/run/h.sock", "fd://3", "[fe80::1%eth0]:1"),
        ),
        ("server.bind", ("127.0.0.1:0", "127.0.0.1:0")),
        ("server.base_path", "/hooks/v1"),
        ("server.public_url", "https://hooks.example.org:8443/base"),
        ("server.public_url", "http://[::1]:1/"),
        ("server.max_body", Size(1024)),
        ("server.max_body", Size(2**30)),
        ("server.max_batch_events", 1),
        ("server.max_batch_events", 1_000_000),
        ("server.max_connections", 1),
        ("server.max_connections_per_address", 1_000_000),
        ("server.max_header", Size(1024)),
        ("server.tls", TlsSettings(certificate="a.pem", key="b.pem")),
        ("server.tls", TlsSettings(certificate="", key="")),
        ("server.trusted_proxies", ("10.0.0.0/8", "unix", "192.168.1.7", "::1/128")),
        ("server.cors_origins", ("https://crm.example", "http://localhost:5173", "HTTPS://[::1]:443")),
        ("auth.global_key", "a" * 255),
        ("auth.global_key", "!~"),
        ("dashboard.brand.name", "Acme & Söhne"),
        ("dashboard.brand.logo", "brand/logo.svg"),
        ("dashboard.brand.logo", "C:\\brand\\logo.svg"),
        ("dashboard.brand.logo", "https://cdn.example:8443/a/logo.png?x=1"),
        ("dashboard.brand.colour", "#0b6B57"),
        ("dashboard.brand.colour", "#fe0"),
        ("delivery.allow_networks", ("10.0.0.0/8", "192.168.1.7", "fd00::/8", "::1/128")),
        ("delivery.refused_ports", ()),
        ("delivery.refused_ports", (1, 65535)),
        ("delivery.proxy", None),
        ("delivery.proxy", "http://proxy.example:3128"),
        ("delivery.proxy", "socks5://ann:hunter2@[::1]:1080"),
        ("storage.retention", Duration(0)),
        ("storage.history_limit", Size(2**20)),
        ("storage.history_limit", Size(2**50)),
        ("events.dedupe", Duration(0)),
        ("events.dedupe_limit", Size(2**20)),
        ("delivery.schedule", ()),
        ("delivery.schedule", (Duration(1),) * 100),
        ("delivery.jitter", 0.0),
        ("delivery.jitter", 1.0),
        ("delivery.kept_answer", Size(0)),
        ("delivery.kept_answer", Size(64 * 1024)),
        ("delivery.unreachable_first_wait", Duration(300)),
        ("delivery.lane_buffer", 1),
        ("delivery.lane_buffer", 100_000),
        ("limits.deliveries", 0),
        ("limits.bytes", Size(0)),
        ("limits.bytes", Size(2**20)),
        ("limits.registration_bytes", Size(2**60)),
        ("limits.registration_deliveries", 1),
        (
            "limits.tags",
            {"tenant": TagLimits(deliveries=1, bytes=Size(2**20), rate="20/s"), "a@b": TagLimits()},
        ),
        ("operations.url", "https://user:password@ops.example/hook?a=1"),
        ("operations.events", ("LANE_FAILING", "delivery.dead")),
        ("operations.headers", {"X-Token": "abc"}),
        ("operations.secret", "whsec_" + "QUJD" * 8),
        ("operations.backlog_threshold", 0),
        ("plugins.names", ("company.hooks", "größe")),
        ("plugins.folders", ()),
    ],
)
def test_valid_values_are_accepted(path: str, value: Any) -> None:
    assert broken(path, value) == []


@pytest.mark.parametrize(
    ("path", "value", "place", "sentence"),
    [
        ("server.bind", (), "", "the list is empty"),
        ("server.bind", ("a:1", "a:1"), "[1]", "a:1 appears twice"),
        ("server.bind", ("a:1", "8080"), "[1]", "is not an address to listen on: write host:port"),
        ("server.bind", ("a:",), "[0]", "is not an address to listen on"),
        ("server.bind", ("a:http",), "[0]", "is not an address to listen on"),
        ("server.bind", ("a:-1",), "[0]", "is not an address to listen on"),
        ("server.bind", ("a:٣",), "[0]", "is not an address to listen on"),
        ("server.bind", ("a:65536",), "[0]", "a port is from 0 to 65535"),
        ("server.bind", ("a:" + "9" * 5000,), "[0]", "a port is from 0 to 65535"),
        ("server.bind", (":8080",), "[0]", "0.0.0.0 for every IPv4 address"),
        ("server.bind", ("*:8080",), "[0]", "'*' is not a host"),
        ("server.bind", ("::1:8080",), "[0]", "'::1' is not a host"),
        ("server.bind", ("[127.0.0.1]:80",), "[0]", "is not a host"),
        ("server.bind", ("256.1.1.1:80",), "[0]", "is not a host"),
        ("server.bind", ("-a:80",), "[0]", "is not a host"),
        ("server.bind", ("a..b:80",), "[0]", "is not a host"),
        ("server.bind", ("a.b" * 100 + ":80",), "[0]", "is not a host"),
        ("server.bind", ("http://a:80",), "[0]", "is not a host"),
        ("server.bind", ("unix:h.sock",), "[0]", "unix:/path"),
        ("server.bind", ("unix:/h\0.sock",), "[0]", "unix:/path"),
        ("server.bind", ("fd://x",), "[0]", "write fd://3"),
        ("server.bind", ("fd://",), "[0]", "write fd://3"),
        ("server.bind", ("fd://٣",), "[0]", "write fd://3"),
        ("server.base_path", "hooks", "", "must start with a slash: /hooks."),
        ("server.base_path", "/hooks/", "", "must not end with a slash"),
        ("server.base_path", "/", "", "leave it empty for no prefix"),
        ("server.base_path", "/a//b", "", "or contain two in a row"),
        ("server.base_path", "/a b", "", "must be a plain path"),
        ("server.base_path", "/a?b", "", "must be a plain path"),
        ("server.base_path", "/<x>", "", "must be a plain path"),
        ("server.base_path", "/a/../b", "", "must be a plain path"),
        ("server.public_url", "hooks.example.org", "", "must be an http or https URL"),
        ("server.public_url", "ftp://a", "", "must be an http or https URL"),
        ("server.public_url", "https://", "", "must be an http or https URL"),
        ("server.public_url", "https://a b", "", "must be an http or https URL"),
        ("server.public_url", "https://a:99999", "", "must be an http or https URL"),
        ("server.public_url", "https://a:0", "", "must be an http or https URL"),
        ("server.public_url", "https://[::1", "", "must be an http or https URL"),
        ("server.public_url", "https://a/?x=1", "", "no user, query or fragment"),
        ("server.public_url", "https://a/#x", "", "no user, query or fragment"),
        ("server.public_url", "https://ana@a", "", "no user, query or fragment"),
        ("server.max_body", Size(1023), "", "must be from 1KiB to 1GiB, not 1023B."),
        ("server.max_body", Size(2**30 + 1), "", "must be from 1KiB to 1GiB"),
        ("server.max_requests", 0, "", "must be from 1 to 1000000, not 0."),
        ("server.max_connections", 1_000_001, "", "must be from 1 to 1000000"),
        ("server.tls", TlsSettings(certificate="a.pem"), "", "certificate and key belong together"),
        ("server.tls", TlsSettings(key="a.pem"), "", "set both, or neither for plain HTTP"),
        ("server.trusted_proxies", ("10.1.2.3/8",), "[0]", "write 10.0.0.0/8; unix stands for Unix sockets."),
        ("server.trusted_proxies", ("unix", "proxy"), "[1]", "is not a network"),
        *(
            (
                "server.cors_origins",
                ("https://a.example", value),
                "[1]",
                "must be http(s)://host[:port] alone",
            )
            for value in (
                *(
                    "*",
                    "null",
                    "crm.example",
                    "ftp://a.example",
                    "https://",
                    "https://a.example/",
                    "//a.example",
                ),
                *("https://a.example/x", "https://u@a.example", "https://a.example:0", "https://*.example"),
                *("https://a.example:65536", "https://a.example:", "https://a b", "https://[::1", ""),
            )
        ),
        ("server.max_batch_events", 0, "", "must be from 1 to 1000000, not 0."),
        ("server.max_batch_events", 1_000_001, "", "must be from 1 to 1000000"),
        ("auth.global_key", "a b", "", "visible ASCII characters"),
        ("auth.global_key", "schlüssel", "", "visible ASCII characters"),
        ("auth.global_key", "a" * 256, "", "at most 255"),
        *(("dashboard.brand.name", name, "", "1 to 64 visible") for name in ("", " a", "a\nb", "a" * 65)),
        *(
            ("dashboard.brand.logo", logo, "", "https URL")
            for logo in (
                *("", " ", "a\0.png", "http://a.example/x.png", "https://", "https://u@a.example/x"),
                *("javascript:alert(1)", "https://a.example/x;script-src *", "https://a b/x", "https://a/#x"),
                "data:image/png,x",
            )
        ),
        ("dashboard.brand.colour", "red", "", "a colour such as #0b6b57, not 'red'."),
        ("dashboard.brand.colour", "#0b6b5", "", "a colour such as"),
        ("dashboard.brand.colour", "#fff;x", "", "a colour such as"),
        ("auth.proxy_header", "x-forwarded-user", "", "name the proxy that sets it in server.trusted_prox"),
        ("auth.users", {"ana": "people"}, "", "set auth.proxy_header, too"),
        ("storage.path", "", "", "must not be empty"),
        ("storage.path", "a\0b", "", "NUL"),
        ("storage.path", ":memory:", "", "must be the path of a file, not ':memory:'"),
        ("storage.path", "file:a.db?mode=memory", "", "must be the path of a file"),
        ("storage.history_limit", Size(2**20 - 1), "", "must be at least 1MiB, not 1048575B; storage.reten"),
        ("events.dedupe_limit", Size(2**20 - 1), "", "must be at least 1MiB, not 1048575B; events.dedupe: 0"),
        ("delivery.allow_networks", ("10.0.0.0/8", "10.1.2.3/8"), "[1]", "write 10.0.0.0/8."),
        ("delivery.allow_networks", ("10.0.0.0/33",), "[0]", "is not a network"),
        ("delivery.allow_networks", ("intranet",), "[0]", "is not a network"),
        ("delivery.refused_ports", (22, 0), "[1]", "must be from 1 to 65535, not 0."),
        ("delivery.refused_ports", (65536,), "[0]", "must be from 1 to 65535, not 65536."),
        ("delivery.proxy", "", "", "must be as in http://proxy.example:3128 or socks5://"),
        ("delivery.proxy", "https://proxy.example:3128", "", "must be as in http://proxy.example:3128"),
        ("delivery.schedule", (Duration(1), Duration(0)), "[1]", "must be more than 0s"),
        ("delivery.schedule", (Duration(1),) * 101, "", "more than 100 waits"),
        ("delivery.jitter", -0.01, "", "must be from 0 to 1"),
        ("delivery.jitter", 1.01, "", "must be from 0 to 1"),
        ("delivery.jitter", float("nan"), "", "must be from 0 to 1"),
        ("delivery.unreachable_first_wait", Duration(301), "", "unreachable_max_wait (5m)"),
        ("delivery.max_answer", Size(2048), None, "must not be more than max_answer (2KiB)."),
        ("delivery.lane_buffer", 0, "", "must be from 1 to 100000"),
        ("delivery.lane_buffer", 100_001, "", "must be from 1 to 100000"),
        ("limits.deliveries", -1, "", "must be from 0 to"),
        ("events.max_data", Size(2**28 + 1), "", "must be from 1KiB to 256MiB"),
        ("limits.bytes", Size(2**20 - 1), "", "must be at least events.max_data (1MiB), or 0 for no limit"),
        ("limits.registration_bytes", Size(2**60 + 1), "", "or 0 for no limit, not 1152921504606846977B."),
        ("limits.registration_deliveries", -1, "", "must be from 0 to"),
        ("limits.tags", {"a b": TagLimits()}, ".a b", "no tag has this name"),
        ("limits.tags", {"tenant": TagLimits(deliveries=-1)}, ".tenant.deliveries", "must be from 0 to"),
        ("limits.tags", {"tenant": TagLimits(bytes=Size(1))}, ".tenant.bytes", "must be at least events.max"),
        ("limits.tags", {"tenant": TagLimits(rate="fast")}, ".tenant.rate", "expected a rate such as 20/s"),
        ("operations.url", "ops.example", "", "The URL must begin with http"),
        ("operations.events", ("LANE_FAILING", "LANE_FALING"), "[1]", "Did you mean LANE_FAILING?"),
        ("operations.events", ("MESSAGES_UPSERT",), "[0]", "is not an operational kind."),
        ("operations.headers", {"host": "a"}, "", "host "),
        ("operations.secret", "hunter2", "", "must be whsec_ followed by the base64 of 24 to 64 bytes."),
        ("operations.backlog_threshold", -1, "", "must be from 0 to"),
        ("plugins.names", ("a.b", "a-b"), "[1]", "is not an importable name"),
        ("plugins.names", ("a..b",), "[0]", "is not an importable name"),
        ("plugins.disabled", (" ",), "[0]", "must not be empty"),
        ("plugins.folders", ("",), "[0]", "must not be empty"),
    ],
)
def test_invalid_values_are_reported(path: str, value: Any, place: str | None, sentence: str) -> None:
    found = dict(broken(path, value))
    at = path + place if place is not None else "delivery.kept_answer"
    assert sentence in found[at]
    assert len(found) == 1


def test_a_password_in_the_public_address_is_not_shown() -> None:
    ((_, sentence),) = broken("server.public_url", "https://user:hunter2@hooks.example.org")
    assert "hunter2" not in sentence
    assert "https://hooks.example.org" in sentence


def test_every_mistake_is_reported_at_once() -> None:
    found = broken("delivery.schedule", (Duration(0), Duration(1), Duration(0)))
    assert [place for place, _ in found] == ["delivery.schedule[0]", "delivery.schedule[2]"]


def of_people(header: str, users: dict[str, str]) -> dict[str, str]:
    server = ServerSettings(trusted_proxies=("10.0.0.0/8",))
    return dict(broken_rules(Settings(server=server, auth=AuthSettings(proxy_header=header, users=users))))


def test_people_are_named_in_a_header_that_says_nothing_else() -> None:
    for header in (
        "x-forwarded-user",
        "X-Auth-Request-Email",
        "remote-user",
        "cf-access-user",
        "x-webauth-user",
    ):
        assert of_people(header, {"ana@acme.example": "people"}) == {}
    for header in (
        "",
        "a b",
        "x:",
        "Cookie",
        "authorization",
        "apikey",
        "host",
        "x-forwarded-for",
        "sec-x",
        "origin",
    ):
        assert "must be a header that says nothing else" in of_people(header, {})["auth.proxy_header"]


def test_people_and_their_keys_have_names() -> None:
    assert "visible characters" in of_people("remote-user", {" ana": "people"})["auth.users. ana"]
    assert "visible characters" in of_people("remote-user", {"": "people"})["auth.users."]
    [(place, sentence)] = of_people("remote-user", {"ana": "a/b"}).items()
    assert place == "auth.users.ana"
    assert "letters (A-Z, a-z), digits" in sentence


def test_integrations_have_names_of_evolution_api() -> None:
    integrations = {"WHATSAPP-BAILEYS": "matrix", "BAILEYS": "matrix"}
    settings = Settings(instances=InstancesSettings(integrations=integrations))
    assert dict(broken_rules(settings)) == {
        "instances.integrations.BAILEYS": "clients of Evolution API name no such integration: "
        "write EVOLUTION, WHATSAPP-BAILEYS, WHATSAPP-BUSINESS."
    }


def in_database(**storage: Any) -> list[tuple[str, str]]:
    return list(broken_rules(Settings(storage=StorageSettings(engine="postgresql", **storage))))


def test_a_database_needs_a_url() -> None:
    assert in_database(url="postgresql://hookgw:x@db.test:5432/hooks", schema="a_1") == []
    ((place, sentence),) = in_database()
    assert place == "storage.url"
    assert "postgresql://user:password@host:port/database" in sentence
    ((place, sentence),) = in_database(url="postgres:///hooks", backup_folder="/backups")
    assert place == "storage.backup_folder"
    assert "pg_dump" in sentence
    ((place, sentence),) = broken("storage.url", "postgresql://db.test/hooks")
    assert "storage.engine is sqlite" in sentence


@pytest.mark.parametrize("url", ["db.test", "host=db.test password=hush", "postgresql:///a?password=hush"])
def test_a_url_of_a_database_is_not_shown(url: str) -> None:
    ((place, sentence),) = in_database(url=url)
    assert place == "storage.url"
    assert "hush" not in sentence
    assert "hush" not in repr(StorageSettings(url=url))


@pytest.mark.parametrize("schema", ["", "A", "1a", 'a"b', "a" * 64])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    ((place, _),) = in_database(url="postgresql:///hooks", schema=schema)
    assert place == "storage.schema"
