"""``/docs``: without a key, compressed, with this gateway's address, and loaded when it is asked for."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trio

from hookgw.manual import packaged, shell
from hookgw.manual.archive import pack
from tests.api.conftest import open_client
from tests.public.app import open_gateway
from tests.public.config import ServerSettings, Settings, StorageSettings
from tests.public.kernel import Size
from tests.support.application import create_app
from tests.support.processes import run

HOME = b'<a href="docs/start">x</a><pre><span class="at">http://127.0.0.1:8080</span>/x</pre>'
START = b'<a href="http://127.0.0.1:8080/dashboard">d</a>http://127.0.0.1:8080'
FILES = {
    "docs": HOME,
    "docs/start": START,
    "docs/marked": f'<html lang="{shell.LANGUAGE}">{shell.marked("Skip to the text")}'.encode(),
    "docs/assets/manual.css": b"a {}",
    "docs/assets/search.json": b"{}",
}
NAMES = ("theme.js", "manual.js", "search.js", "icon.svg", "clipboard.js")


@pytest.fixture(autouse=True)
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A small manual, where a wheel has it."""
    file = tmp_path / packaged.ARCHIVE
    file.write_bytes(pack(FILES | {f"docs/assets/{name}": b"" for name in NAMES}, "docs"))
    monkeypatch.setattr(packaged, "files", lambda _: tmp_path)
    monkeypatch.setattr(packaged, "_of_checkout", lambda _: None)
    return file


def settings(tmp_path: Path, server: ServerSettings) -> Settings:
    return Settings(
        server=server, storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0))
    )


@pytest.fixture
def server() -> ServerSettings:
    return ServerSettings(bind=("127.0.0.1:0",))


@pytest.fixture
async def client(
    tmp_path: Path, server: ServerSettings, nursery: trio.Nursery
) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key."""
    async with (
        open_gateway(settings(tmp_path, server), base=tmp_path) as gateway,
        open_client(create_app(gateway), nursery) as client,
    ):
        yield client


def address_of(client: httpx.AsyncClient) -> str:
    return str(client.base_url).rstrip("/")


async def test_examples_and_links_have_the_address_of_this_gateway(client: httpx.AsyncClient) -> None:
    own = address_of(client)
    home = await client.get("/docs")
    assert home.text == f'<a href="docs/start">x</a><pre><span class="at">{own}</span>/x</pre>'
    # What is neither an example nor a link is a text about defaults.
    start = await client.get("/docs/start")
    assert start.text == f'<a href="{own}/dashboard">d</a>http://127.0.0.1:8080'


async def test_a_header_of_the_client_changes_no_address(client: httpx.AsyncClient) -> None:
    headers = {"host": "evil.example", "x-forwarded-host": "evil.example", "x-forwarded-proto": "https"}
    response = await client.get("/docs", headers=headers)
    assert address_of(client) in response.text


@pytest.mark.parametrize("server", [ServerSettings(public_url="https://hooks.example")])
async def test_a_public_url_is_the_address(client: httpx.AsyncClient) -> None:
    assert '<span class="at">https://hooks.example</span>' in (await client.get("/docs")).text


@pytest.mark.parametrize("server", [ServerSettings(base_path="/hooks")])
async def test_it_is_below_the_base_path(client: httpx.AsyncClient) -> None:
    assert f"{address_of(client)}/hooks</span>" in (await client.get("/hooks/docs")).text
    assert (await client.get("/hooks/docs/start")).status_code == 200


async def test_pages_are_compressed_for_clients_that_take_it(client: httpx.AsyncClient) -> None:
    for accepted, coding in (
        ("gzip", "gzip"),
        ("br, gzip;q=0.5", "gzip"),
        ("gzip;q=0", None),
        ("identity", None),
    ):
        response = await client.get("/docs/start", headers={"accept-encoding": accepted})
        assert response.headers.get("content-encoding") == coding
        assert response.headers["vary"] == "accept-encoding, cookie, accept-language"
        assert response.text.endswith("http://127.0.0.1:8080")


async def test_what_a_browser_has_already_is_not_sent_again(client: httpx.AsyncClient) -> None:
    first = await client.get("/docs")
    assert first.headers["cache-control"] == "no-cache"
    again = await client.get("/docs", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    asset = await client.get("/docs/assets/manual.css?v=1")
    assert asset.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in asset.headers["cache-control"]


async def test_the_tag_of_a_page_that_is_compressed_or_not_is_weak(client: httpx.AsyncClient) -> None:
    pages = [
        await client.get("/docs", headers={"accept-encoding": coding}) for coding in ("gzip", "identity")
    ]
    (tag,) = {page.headers["etag"] for page in pages}
    assert tag.startswith('W/"')
    for sent in (tag, f'"other", {tag}'):
        assert (await client.get("/docs", headers={"if-none-match": sent})).status_code == 304


async def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    for path in ("/docs", "/docs/start", "/docs/http"):
        response = await client.get(path)
        policy = dict(
            part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == policy["form-action"] == policy["base-uri"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
        assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["nothing", "start/x", "assets", "start%00", "assets%2F..%2Fstart"])
async def test_a_page_that_does_not_exist(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(f"/docs/{path}")
    assert response.status_code == 404


async def test_a_manual_that_is_gone_leaves_the_reference(client: httpx.AsyncClient, archive: Path) -> None:
    """An upgrade removes the files of a running process."""
    await trio.Path(archive).unlink()
    home = await client.get("/docs")
    assert home.status_code == 200
    assert "Restart it" in home.text
    assert (await client.get("/docs/http/registrations")).status_code == 200
    assert (await client.get("/docs/start")).status_code == 404


@pytest.mark.process
def test_nothing_of_it_is_loaded_before_it_is_asked_for(tmp_path: Path) -> None:
    program = "import sys, hookgw.app.surfaces; print(*(name for name in sys.modules if 'manual' in name))"
    done = run(["-c", program], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    light = ("", ".archive", ".contents", ".curl", ".examples", ".packaged", ".routes", ".shell")
    assert {*done.stdout.split()} <= {f"hookgw.manual{name}" for name in light}


async def test_the_texts_around_a_page_are_in_the_language_of_its_reader(client: httpx.AsyncClient) -> None:
    pages = {}
    for language, words in (("en", "Skip to the text"), ("pt-BR", "Ir para o texto"), ("es", "Ir al texto")):
        for _ in range(2):  # the second one is kept
            page = await client.get("/docs/marked", headers={"accept-language": language})
            assert page.headers["content-language"] == language
            assert f'<html lang="{language}"' in page.text
            assert words in page.text
            assert not any("\ue000" <= letter <= "\uf8ff" for letter in page.text)
            pages[language] = page
    assert len({page.headers["etag"] for page in pages.values()}) == 3
    client.cookies.set("hookgw_language", "es")
    assert "Ir al texto" in (await client.get("/docs/marked", headers={"accept-language": "pt"})).text
