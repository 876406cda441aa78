"""Request heads: rendered once per target, completed for each request."""

import h11
import pytest

from tests.public.delivery import RequestHead
from tests.public.kernel import parse_target

TARGET = parse_target("https://user:pass@example.com:8443/hook?x=1")


def test_the_headers_of_every_request() -> None:
    head = RequestHead(TARGET, {"Content-Type": "application/json"}).render(12, [("webhook-id", "msg_1")])
    assert head == (
        b"POST /hook?x=1 HTTP/1.1\r\nhost: example.com:8443\r\naccept: */*\r\naccept-encoding: identity\r\n"
        b"authorization: Basic dXNlcjpwYXNz\r\ncontent-type: application/json\r\n"
        b"webhook-id: msg_1\r\ncontent-length: 12\r\n\r\n"
    )


def test_another_parser_reads_it() -> None:
    server = h11.Connection(h11.SERVER)
    server.receive_data(RequestHead(TARGET, {"x-name": "Loja Ü"}).render(0, [("x-tab", "a\tb")]))
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert (b"x-name", "Loja Ü".encode()) in request.headers
    assert (b"x-tab", b"a\tb") in request.headers


@pytest.mark.parametrize("name", ["Authorization", "authorization", "ACCEPT", "accept-encoding"])
def test_a_given_header_replaces_a_default(name: str) -> None:
    head = RequestHead(TARGET, {name: "mine"}).render(0)
    assert head.lower().count(name.lower().encode() + b":") == 1
    assert f"{name.lower()}: mine\r\n".encode() in head


def test_a_header_of_one_request_replaces_a_fixed_one() -> None:
    heads = RequestHead(TARGET, {"x-a": "1", "x-b": "2"})
    before = heads.render(0)
    head = heads.render(0, [("x-a", "3"), ("authorization", "Bearer t"), ("x-c", "4")])
    assert head.split(b"\r\n")[4:8] == [b"x-b: 2", b"x-a: 3", b"authorization: Bearer t", b"x-c: 4"]
    assert b"Basic" not in head
    assert heads.render(0) == before


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
        RequestHead(TARGET, {name: "x"})
    with pytest.raises(ValueError, match=r"is not a valid header name|is reserved"):
        RequestHead(TARGET, {}).render(0, [(name, "x")])


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\r\nx-evil: 1", "\x00", "a\x7f", "\ud800"])
def test_refused_header_values(value: str) -> None:
    with pytest.raises(ValueError, match="header x-a contains a line break or control character"):
        RequestHead(TARGET, {"x-a": value})
    with pytest.raises(ValueError, match="header x-a contains a line break or control character"):
        RequestHead(TARGET, {}).render(0, [("x-b", "fine"), ("x-a", value)])
