from pathlib import Path
from typing import Any

import pytest

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

SENT = {"key": {"remoteJid": "55@s", "fromMe": True, "id": "M1"}, "status": "PENDING"}


async def test_a_text(invoke: Invoke, server: Receiver) -> None:
    server.default = says(SENT, 201)
    result = await invoke("message", "send", "loja1", "55", "Oi", "--id", "order-17")
    assert (result.exit_code, result.stdout) == (0, "Sent: M1\n")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/message/sendText/loja1")
    assert request.json == {"number": "55", "text": "Oi"}
    assert request.header("idempotency-key") == "order-17"


@pytest.mark.parametrize("send_id", ["", "é", "a b", "a\nb", "a" * 256])
async def test_an_id_that_no_header_can_have(invoke: Invoke, server: Receiver, send_id: str) -> None:
    refused = await invoke("message", "send", "loja1", "55", "Oi", "--id", send_id)
    assert refused.exit_code == 2
    assert "write 1 to 255 visible ASCII characters." in refused.stderr
    assert server.requests == []


@pytest.mark.parametrize(
    ("name", "options", "fields"),
    [
        (
            "menu.pdf",
            ["The menu"],
            {"mediatype": "document", "caption": "The menu", "mimetype": "application/pdf"},
        ),
        ("a.png", [], {"mediatype": "image", "mimetype": "image/png"}),
        ("a.png", ["--as", "sticker"], {"mediatype": "sticker", "mimetype": "image/png"}),
        ("odd", [], {"mediatype": "document"}),
    ],
)
async def test_a_file(
    invoke: Invoke, server: Receiver, tmp_path: Path, name: str, options: list[str], fields: dict[str, Any]
) -> None:
    server.default = says(SENT, 201)
    (tmp_path / name).write_bytes(b"Hello")
    result = await invoke("message", "send", "loja1", "55", "--file", name, *options)
    assert result.exit_code == 0, result.stderr
    (request,) = server.requests
    assert request.target == "/message/sendMedia/loja1"
    assert request.json == {"number": "55", "media": "SGVsbG8=", "fileName": name, **fields}


async def test_a_file_at_a_url(invoke: Invoke, server: Receiver) -> None:
    server.default = says(SENT, 201)
    await invoke("message", "send", "loja1", "55", "--url", "https://x.example/a.mp4?b=1")
    assert server.requests[0].json == {
        "number": "55",
        "mediatype": "video",
        "media": "https://x.example/a.mp4?b=1",
        "mimetype": "video/mp4",
    }


@pytest.mark.parametrize("sent", [[], {}, {"key": 5}, {"key": {}}])
async def test_an_odd_message_was_sent_all_the_same(invoke: Invoke, server: Receiver, sent: Any) -> None:
    server.default = says(sent, 201)
    assert (await invoke("message", "send", "loja1", "55", "Oi")).stdout == "Sent\n"


async def test_json_is_the_response_itself(invoke: Invoke, server: Receiver) -> None:
    server.default = says(SENT, 201)
    assert '"status": "PENDING"' in (await invoke("message", "send", "loja1", "55", "Oi", "--json")).stdout


async def test_the_networks_code_is_shown(invoke: Invoke, server: Receiver) -> None:
    server.default = says(
        {"status": 403, "response": {"message": ["Not in the room."], "code": "M_FORBIDDEN"}}, 403
    )
    result = await invoke("message", "send", "loja1", "55", "Oi")
    assert result.exit_code == 1
    assert "Not in the room." in result.stderr
    assert "M_FORBIDDEN" in result.stderr


@pytest.mark.parametrize(
    "options", [[], ["--as", "image", "Oi"], ["--file", "a", "--url", "https://x"], ["--file", "missing"]]
)
async def test_wrong_usage(invoke: Invoke, server: Receiver, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert (await invoke("message", "send", "loja1", "55", *options)).exit_code == 2
    assert server.requests == []
