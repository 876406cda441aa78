import html
import json
from urllib.parse import quote

import pytest

from hookgw import Registration
from tests.public.delivery import redact, secrets_sent
from tests.public.kernel import MASK, parse_target


def sent(url: str = "https://receiver.test/", **headers: str) -> tuple[bytes, ...]:
    registration = Registration(id="reg_1", instance="shop", url=url, headers=headers)
    return secrets_sent(registration, parse_target(url))


def test_values_of_headers_and_the_words_in_them_are_secret() -> None:
    assert sent(authorization="Bearer planted-token") == (
        b"Bearer%20planted-token",
        b"Bearer planted-token",
        b"planted-token",
    )


ODD = 'ä"b/c\\d&e='


@pytest.mark.parametrize(
    "quoted",
    [
        ODD,
        json.dumps(ODD),
        json.dumps(ODD, ensure_ascii=False),
        json.dumps(ODD).replace("/", "\\/"),  # PHP
        json.dumps(ODD, ensure_ascii=False).replace("&", "\\u0026"),  # Go
        json.dumps(ODD, ensure_ascii=False).replace("&", "\\u0026").replace("=", "\\u003d"),  # Gson
        quote(ODD, safe=""),
        html.escape(ODD),
    ],
)
def test_options_of_plugins_are_masked_however_the_receiver_quotes_them(quoted: str) -> None:
    registration = Registration(id="reg_1", instance="shop", url="https://receiver.test/")
    secrets = secrets_sent(registration, parse_target(registration.url), [ODD, "short"])
    masked = redact(f"<{quoted}> short".encode(), secrets).decode()
    assert masked.replace('"', "") == f"<{MASK}> short"


def test_user_and_password_are_secret_in_every_spelling() -> None:
    found = sent("https://annabel:p%C3%A4ss%20word@receiver.test/")
    assert set(found) >= {
        b"annabel",
        b"p%C3%A4ss%20word",
        "päss word".encode(),
        b"YW5uYWJlbDpww6RzcyB3b3Jk",
    }


def test_short_values_are_not_secrets() -> None:
    assert sent(authorization="12345", accept="a b c") == ()
    assert sent("https://a:b@receiver.test/") == ()


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"ok", b"ok"),
        (b'{"auth": "Bearer planted-token"}', b'{"auth": "********"}'),
        (b"planted-token, planted-token", b"********, ********"),
        (b"\xff planted-token", b"\xff ********"),
    ],
)
def test_secrets_in_a_response_are_masked(body: bytes, kept: bytes) -> None:
    assert redact(body, sent(authorization="Bearer planted-token")) == kept
