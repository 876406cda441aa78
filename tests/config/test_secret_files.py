from pathlib import Path

import pytest

from tests.public.config import known_keys, load_settings, unknown_variables, variable_of
from tests.public.kernel import ConfigError

KEY = "k" * 43
MASTER = "A" * 43 + "="


def file_with(folder: Path, content: str | bytes) -> str:
    file = folder / "secret"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


@pytest.mark.parametrize(
    ("variable", "path", "content"),
    [
        ("HOOKGW_GLOBAL_KEY", "auth.global_key", KEY),
        ("HOOKGW_MASTER_KEY", "storage.master_key", MASTER),
        ("HOOKGW_AUTH__GLOBAL_KEY", "auth.global_key", KEY),
        ("HOOKGW_STORAGE__URL", "storage.url", "postgresql://u:s3cret@db/hookgw"),
        ("HOOKGW_DELIVERY__PROXY", "delivery.proxy", "http://u:s3cret@proxy:3128"),
        ("HOOKGW_SERVER__TLS__KEY_PASSWORD", "server.tls.key_password", " with spaces "),
        ("HOOKGW_FLEET__SECRET", "fleet.secret", "f" * 32),
        ("HOOKGW_OPERATIONS__URL", "operations.url", "https://u:p@example.org/ops"),
        ("HOOKGW_OPERATIONS__SECRET", "operations.secret", "whsec_" + "A" * 32),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_is_read_from_the_file_that_its_variable_names(
    tmp_path: Path, variable: str, path: str, content: str, end: str
) -> None:
    environ = {f"{variable}_FILE": file_with(tmp_path, content + end)}
    if path.startswith("storage.url"):
        environ["HOOKGW_STORAGE__ENGINE"] = "postgresql"
    if path.startswith("fleet"):
        environ |= {"HOOKGW_STORAGE__ENGINE": "postgresql", "HOOKGW_STORAGE__URL": "postgresql://u:p@db/x"}
    if path.startswith("server.tls"):
        environ |= {"HOOKGW_SERVER__TLS__CERTIFICATE": "c.pem", "HOOKGW_SERVER__TLS__KEY": "k.pem"}
    value: object = load_settings(None, environ)
    for part in path.split("."):
        value = getattr(value, part)
    assert value == content


def test_every_secret_key_has_a_variable_for_a_file(tmp_path: Path) -> None:
    """A key that is added later is found by its name."""
    named = ("key", "keys", "secret", "password", "token")
    no_secrets = {"server.tls.key", "storage.master_key"}  # a file itself, and a key with a key for the file
    secrets = [
        key.path
        for key in known_keys()
        if key.path.rpartition(".")[2].rpartition("_")[2] in named and key.path not in no_secrets
    ]
    assert "auth.global_key" in secrets
    for path in secrets:
        with pytest.raises(ConfigError, match=f"{variable_of(path)}_FILE: .*No such file"):
            load_settings(None, {f"{variable_of(path)}_FILE": str(tmp_path / "missing")})


def test_former_keys_are_lines_of_a_file(tmp_path: Path) -> None:
    other = "B" * 43 + "="
    environ = {
        "HOOKGW_MASTER_KEY": "C" * 43 + "=",
        "HOOKGW_STORAGE__OLD_MASTER_KEYS_FILE": file_with(tmp_path, f"{MASTER}\n{other}\n"),
    }
    assert load_settings(None, environ).storage.old_master_keys == (MASTER, other)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no secret in it"),
        (b"\n", "no secret in it"),
        (b"\xff", "is not UTF-8"),
        (b"x" * 70_000, "too large"),
    ],
)
def test_a_file_without_a_secret_stops_the_start(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_settings(None, {"HOOKGW_GLOBAL_KEY_FILE": file_with(tmp_path, content)})


def test_a_secret_and_a_file_at_once_stop_the_start_without_the_secret(tmp_path: Path) -> None:
    environ = {"HOOKGW_GLOBAL_KEY": KEY, "HOOKGW_GLOBAL_KEY_FILE": file_with(tmp_path, "other" * 5)}
    with pytest.raises(ConfigError) as caught:
        load_settings(None, environ)
    assert "HOOKGW_GLOBAL_KEY is set, too" in str(caught.value)
    assert "otherother" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_an_empty_name_counts_as_missing_and_a_reference_gets_the_secret(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("auth: {global_key: '${HOOKGW_GLOBAL_KEY}'}\n", encoding="utf-8")
    assert load_settings(config, {"HOOKGW_GLOBAL_KEY_FILE": ""}).auth.global_key is None
    environ = {"HOOKGW_GLOBAL_KEY_FILE": file_with(tmp_path, KEY + "\n")}
    assert load_settings(config, environ).auth.global_key == KEY


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("HOOKGW_GLOBALKEY", "HOOKGW_GLOBAL_KEY"),
        ("HOOKGW_GLOBAL_KEY_FILES", "HOOKGW_GLOBAL_KEY_FILE"),
        ("HOOKGW_MASTERKEY_FILE", "HOOKGW_MASTER_KEY_FILE"),
        ("HOOKGW_ZZZZZZ", None),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest(name: str, near: str | None) -> None:
    assert unknown_variables({name: "x", "PATH": "/bin"}) == {name: near}


@pytest.mark.parametrize(
    "name",
    [
        *("HOOKGW_CONFIG", "HOOKGW_KEY", "HOOKGW_GLOBAL_KEY_FILE", "HOOKGW_SERVER__BIND"),
        *("HOOKGW_SERVICE_HOST", "HOOKGW_PORT", "HOOKGW_PORT_8080_TCP_ADDR", "HOOKGW_SERVICE_PORT_HTTP"),
    ],
)
def test_known_variables_and_those_of_a_service_are_not_named(name: str) -> None:
    assert unknown_variables({name: "tcp://10.0.0.1:8080"}) == {}
