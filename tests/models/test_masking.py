"""Masking: no record shows a secret, new fields included, and URLs lose their user information."""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hookgw
from hookgw import Registration
from tests.public.config import (
    AuthSettings,
    MasterKeys,
    OperationsSettings,
    Settings,
    StorageSettings,
    TlsSettings,
)
from tests.public.delivery import template_for
from tests.public.kernel import (
    Secret,
    is_masked,
    parse_target,
    repr_without,
    user_of,
    with_masked_user,
    without_user,
)
from tests.public.records import Instance, new_secret
from tests.public.webhooks import RegistrationChange

PLAIN: Any = msgspec.Struct.__repr__
URL = "https://ann:s3cret@receiver.test/in"
HOOK = Registration(id="reg_1", instance="shop", url=URL, headers={"x": "s3cret"}, secrets=(new_secret(),))
SECRET_FIELDS = {
    *(
        "secret",
        "secrets",
        "token",
        "global_key",
        "master_key",
        "old_master_keys",
        "authorization",
        "password",
    ),
    *("headers", "key_password", "options", "signing", "global_webhooks"),
}


def structs(base: type[Any]) -> Iterator[type[Any]]:
    found: type[Any]
    for found in base.__subclasses__():
        yield found
        yield from structs(found)


@pytest.fixture(scope="module")
def records() -> set[type[Any]]:
    for module in pkgutil.walk_packages(hookgw.__path__, "hookgw."):
        # With the lowest versions, there is no SDK for hookgw.mcp.server.
        if not module.name.endswith("__main__") and (module.name != "hookgw.mcp.server" or find_spec("mcp")):
            importlib.import_module(module.name)
    return {found for found in structs(msgspec.Struct) if found.__module__.startswith("hookgw.")}


def test_every_record_with_a_secret_masks_it(records: set[type[Any]]) -> None:
    assert len(records) > 60
    for record in records:
        secret = SECRET_FIELDS & set(record.__struct_fields__)
        # What a response shows is masked already; what describes one has no secret.
        is_response = record.__module__.startswith("hookgw.web.") or record.__module__.endswith(".responses")
        is_response |= record.__name__ == "Response"
        if secret and not is_response:
            assert record.__repr__ is not PLAIN, (record, secret)


@pytest.mark.parametrize(
    "record",
    [
        HOOK,
        HOOK.secrets[0],
        RegistrationChange(url=URL, headers={"x": "s3cret"}, secret=Secret("whsec_s3cret")),
        Instance(name="shop", id="1", options={"token": "s3cret"}),
        parse_target(URL),
        template_for(HOOK),
        MasterKeys(b"s3cret", (b"s3cret",)),
        AuthSettings(global_key="s3cret"),
        TlsSettings(key_password="s3cret"),
        StorageSettings(master_key="s3cret", old_master_keys=("s3cret",)),
        OperationsSettings(url=URL, secret="s3cret", headers={"x": "s3cret"}),
        Settings(auth=AuthSettings(global_key="s3cret"), global_webhooks=({"url": URL},)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_is_printed_without_its_secrets(record: Any) -> None:
    shown = repr(record)
    assert shown.startswith(f"{type(record).__name__}(")
    assert "s3cret" not in shown
    assert HOOK.secrets[0].value not in shown
    assert str(record) == f"{record}" == shown


def test_the_other_fields_are_shown() -> None:
    class Sample(msgspec.Struct):
        name: str
        count: int
        key: str = ""

        __repr__ = repr_without("key")

    assert repr(Sample("a'b", 2)) == "Sample(name=\"a'b\", count=2, key='')"
    assert repr(Sample("x", 2, "s3cret")) == "Sample(name='x', count=2, key=********)"


@pytest.mark.parametrize(
    ("url", "address", "user"),
    [
        ("https://ann:s3cret@receiver.test/in?x=1", "https://receiver.test/in?x=1", "ann:s3cret"),
        ("HTTP://token@receiver.test", "HTTP://receiver.test", "token"),
        ("https://a:b@c@receiver.test:8443/", "https://receiver.test:8443/", "a:b@c"),
        ("https://@receiver.test/", "https://receiver.test/", ""),
        ("https://:p%40ss@[::1]:80/?a@b", "https://[::1]:80/?a@b", ":p%40ss"),
        ("https://receiver.test/a@b", "https://receiver.test/a@b", ""),
        ("https://receiver.test?to=a@b", "https://receiver.test?to=a@b", ""),
        ("https://receiver.test/?to=ftp://a:b@c", "https://receiver.test/?to=ftp://a:b@c", ""),
        ("vazio", "vazio", ""),
        ("ann@receiver.test", "ann@receiver.test", ""),
        ("ftp://ann:s3cret@receiver.test", "ftp://receiver.test", "ann:s3cret"),
        ("", "", ""),
    ],
)
def test_user_and_password_are_removed_or_masked(url: str, address: str, user: str) -> None:
    assert without_user(url) == address
    assert user_of(url) == user
    masked = with_masked_user(url)
    assert without_user(masked) == address
    assert is_masked(masked) == (url != address)


@given(st.text(max_size=60).map(lambda text: f"https://{text}@receiver.test/in"))
def test_no_url_keeps_what_deliveries_would_authenticate_with(url: str) -> None:
    try:
        target = parse_target(url)
    except ValueError:
        return
    address = parse_target(without_user(url))
    assert address.authorization is None
    assert (address.host, address.port, address.path) == (target.host, target.port, target.path)
