"""Request heads."""

import h11
import pytest

from tests.public.delivery import begin_head, render_head
from tests.public.kernel import parse_target

TARGET = parse_target("https://user:pass@example.com:8443/hook?x=1")


def test_the_headers_of_every_request() -> None:
    head = render_head(TARGET, {"Content-Type": "application/json", "webhook-id": "msg_1"}, 12)
    assert head == (
        b"POST /hook?x=1 HTTP/1.1\r\nhost: example.com:8443\r\naccept: */*\r\naccept-encoding: identity\r\n"
        b"authorization: Basic dXNlcjpwYXNz\r\ncontent-type: application/json\r\n"
        b"webhook-id: msg_1\r\ncontent-length: 12\r\n\r\n"
    )


def test_another_parser_reads_it() -> None:
    server = h11.Connection(h11.SERVER)
    server.receive_data(render_head(TARGET, {"x-name": "Loja Ü", "x-tab": "a\tb"}, 0))
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert (b"x-name", "Loja Ü".encode()) in request.headers
    assert (b"x-tab", b"a\tb") in request.headers


@pytest.mark.parametrize("name", ["Authorization", "authorization", "ACCEPT", "accept-encoding"])
def test_a_given_header_replaces_a_default(name: str) -> None:
    head = render_head(TARGET, {name: "mine"}, 0)
    assert head.lower().count(name.lower().encode() + b":") == 1
    assert f"{name.lower()}: mine\r\n".encode() in head


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "a:b",
        "a\r\nb",
        "ü",
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "upgrade",
        "expect",
    ],
)
def test_refused_header_names(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid header name|is reserved"):
        begin_head(TARGET, {name: "x"})


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\r\nx-evil: 1", "\x00", "a\x7f", "\ud800"])
def test_refused_header_values(value: str) -> None:
    with pytest.raises(ValueError, match="header x-a contains a line break or control character"):
        begin_head(TARGET, {"x-b": "fine", "x-a": value})
