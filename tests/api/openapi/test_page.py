"""The HTML reference: it loads only its own files, its links lead somewhere, and its examples work."""

import re
import shlex
from typing import Any
from urllib.parse import unquote, urljoin

import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway
from hookgw.testing import Receiver
from tests.api.conftest import KEY, open_client
from tests.public.app import request_schemas
from tests.public.config import Settings
from tests.public.mcp import load_server
from tests.public.web import AppApplication as Application
from tests.public.web import Example, OpenApiRoutes, Piece, groups_of, kind_of
from tests.public.webhooks import RegistrationChange
from tests.support.html_reader import Reader

Pages = dict[str, httpx.Response]
"""By address."""


@pytest.fixture
async def pages(app: Application, nursery: trio.Nursery) -> Pages:
    """The pages of the reference, from the list of all calls on."""
    found: Pages = {}
    async with open_client(app, nursery) as stranger:
        waiting = ["/docs/http"]
        while waiting:
            path = waiting.pop()
            found[path] = response = await stranger.get(path)
            assert response.status_code == 200, path
            links = {urljoin(path, href.partition("#")[0]) for href in Reader(response.text).every("href")}
            new = {one for one in links if re.fullmatch(r"/docs/http(/[a-z]+)?", one)} - found.keys()
            waiting += sorted(new - set(waiting))
    return found


async def test_they_load_nothing_from_other_servers(pages: Pages) -> None:
    for path, page in pages.items():
        reader = Reader(page.text)
        assert {tag for tag, _ in reader.tags}.isdisjoint({"style", "img", "iframe"})
        assert reader.every("style") == []
        assert not [name for _, attrs in reader.tags for name in attrs if name.startswith("on")]
        loaded = [*reader.every("src"), *(str(attrs["href"]) for tag, attrs in reader.tags if tag == "link")]
        assert {urljoin(path, one).rpartition("/")[0] for one in loaded} == {"/docs/assets"}
        assert not [one for one in reader.every("href") if "//" in one]


async def test_no_script_is_in_a_page(pages: Pages) -> None:
    for page in pages.values():
        assert set(re.findall(r"<script[^>]*>(.*?)</script>", page.text, re.DOTALL)) == {""}
        policy = dict(
            part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["style-src"] == policy["script-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert page.headers["content-type"] == "text/html; charset=utf-8"


async def test_their_links_lead_somewhere(pages: Pages, app: Application, nursery: trio.Nursery) -> None:
    anchors = {path: Reader(page.text).every("id") for path, page in pages.items()}
    async with open_client(app, nursery) as stranger:
        for path, page in pages.items():
            assert len(anchors[path]) == len(set(anchors[path]))
            for href in set(Reader(page.text).every("href")):
                target, _, anchor = urljoin(path, href).partition("#")
                if target not in pages:
                    assert (await stranger.get(target)).status_code == 200, href
                elif anchor:
                    assert unquote(anchor) in anchors[target], href


async def test_every_row_of_a_table_has_a_header(pages: Pages) -> None:
    """Screen readers say it with each cell."""
    for page in pages.values():
        assert page.text.count("<tr") == page.text.count('<th scope="row">')


async def test_they_show_every_operation_and_schema(pages: Pages, app: Application, gateway: Gateway) -> None:
    document = OpenApiRoutes(app, gateway, request_schemas).document
    for path, operations in document["paths"].items():
        if not path.endswith("/{label}"):
            for operation in operations.values():
                of_group = pages[f"/docs/http/{operation['tags'][0].lower()}"]
                for page in (pages["/docs/http"], of_group):
                    assert path in page.text
                    assert f'id="{operation["operationId"]}"' in page.text
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in pages["/docs/http/schemas"].text


async def test_another_page_is_not_found(client: httpx.AsyncClient) -> None:
    response = await client.get("/docs/http/nothing")
    assert response.status_code == 404
    assert "It begins at /docs/http" in response.text


def sent(example: Example) -> dict[str, Any]:
    """Convert a ``curl`` command to arguments for httpx."""
    text = example.curl.replace("$HOOKGW", "").replace("$KEY", KEY).replace("\\\n", "")
    command, *words = shlex.split(text)
    assert command == "curl"
    request: dict[str, Any] = {"method": "GET", "headers": {}}
    for word in (rest := iter(words)):
        if word == "-X":
            request["method"] = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            request["headers"][name] = value
        elif word == "-d":
            request["content"] = next(rest)
        else:
            request["url"] = word
    return request


async def test_every_example_works(
    app: Application, nursery: trio.Nursery, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    """Some examples fail here: without a connection, ``operations.url``, a v1a key or a folder."""
    pytest.importorskip("mcp")  # one of the examples calls /mcp
    load_server()  # the first call of /mcp would, which may take longer than the client waits
    document = OpenApiRoutes(app, gateway, request_schemas).document
    change = RegistrationChange(url=hookgw_receiver.url)
    refused = {"instanceConnect": 409, "instanceLogout": 409, "operationsSecret": 404}
    refused |= {"media": 403, "ingestGet": 404, "ingestPost": 404, "instanceRotateIngest": 409}
    refused |= {"ingestGetBelow": 404, "ingestPostBelow": 404}
    refused |= {"instanceOptionsPatch": 409, "instanceRestart": 409, "instanceSetPresence": 409}
    refused |= {"storageBackup": 409, "instanceRestartPut": 409}
    refused |= {
        "problemMute": 404,
        "jobFind": 404,
        "jobPause": 404,
        "jobResume": 404,
        "jobCancel": 404,
        "eventFind": 404,
        "deliveryFind": 404,
        "deliveryResend": 404,
        "deliveryPull": 409,
        "deliveryAck": 409,
        "deliveryCancelOne": 404,
        "webhookPublicKey": 409,
        "webhookBackfillDelete": 409,
    }
    async with open_client(app, nursery) as stranger:
        refused |= {
            call.anchor: 409
            for group in groups_of(document)
            for call in group.calls
            if call.anchor.startswith(("messageSend", "chat", "group"))
            and not call.anchor.startswith("chatFind")
        }
        # There is no such message; and the group is missing.
        refused |= dict.fromkeys(("groupFindGroupInfos", "groupParticipants"), 400)
        refused["chatGetBase64FromMediaMessage"] = 400
        for call in (call for group in groups_of(document) for call in group.calls):
            for example in call.examples:
                if call.anchor == "instanceCreate" and gateway.instances.find("loja1"):
                    await gateway.instances.delete("loja1")
                elif call.anchor != "instanceCreate":
                    for label in ("default", "crm"):
                        await gateway.registrations.set("loja1", label, change, create=True)
                response = await stranger.request(**sent(example))
                status = refused.get(call.anchor)
                assert response.status_code == status or (status is None and response.is_success), example


class TestBelowABasePath:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        server = msgspec.structs.replace(settings.server, base_path="/hooks")
        return msgspec.structs.replace(settings, server=server)

    async def test_its_links_are_below_it_too(self, client: httpx.AsyncClient) -> None:
        page = await client.get("/hooks/docs/http/registrations")
        assert re.search(r'HOOKGW=<span class="at">http://127.0.0.1:\d+/hooks</span>', page.text)
        assert 'href="../http"' in page.text


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, "anything"),
        ({"not": {}}, "nothing"),
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"], "maxLength": 2048}, "string of at most 2,048 characters or null"),
        ({"type": "string", "format": "date-time", "pattern": "x"}, "date-time"),
        ({"type": "string", "pattern": "^a$"}, "string like ^a$"),
        ({"type": "integer", "minimum": 1, "maximum": 64}, "integer from 1 to 64"),
        ({"type": "array", "items": {"type": "string"}}, "list of string"),
        ({"enum": ["a", None]}, '"a" or null'),
        ({"const": 0}, "0"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/Lane"}]}, "null or Lane"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string"),
        ({"type": ["object", "null"], "additionalProperties": True}, "object or null"),
        ({"allOf": [{"$ref": "#/components/schemas/Lane"}], "properties": {}}, "Lane"),
    ],
)
def test_a_schema_in_words(schema: dict[str, Any], words: str) -> None:
    assert "".join(piece.text for piece in kind_of(schema)) == words


def test_a_reference_is_a_link() -> None:
    assert list(kind_of({"$ref": "#/components/schemas/Lane"})) == [Piece("Lane", link="Lane")]
