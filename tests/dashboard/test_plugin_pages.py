"""Pages that plugins add, over HTTP."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import trio
from markupsafe import Markup

import hookgw
from hookgw import DashboardPage, Gateway, PluginGateway
from tests.dashboard.conftest import KEY, Browser
from tests.public.config import Settings


class Sly(str):
    """A text that would be markup if a template asked it."""

    __slots__ = ()

    def __html__(self) -> str:
        return "<script>alert(1)</script>"


async def text(gateway: PluginGateway, query: Mapping[str, str]) -> str:
    return f"<b>{query.get('name')}</b>\n{len(gateway.instances.all())} instances"


async def markup(gateway: PluginGateway, query: Mapping[str, str]) -> str:
    return Markup("<h2>Name</h2><p>{}</p>").format(query.get("name"))


async def fail(gateway: PluginGateway, query: Mapping[str, str]) -> str:
    raise SystemExit("secret of another tenant")


async def refuse(gateway: PluginGateway, query: Mapping[str, str]) -> str:
    raise hookgw.Invalid("secret of another tenant")


async def hang(gateway: PluginGateway, query: Mapping[str, str]) -> str:
    await trio.sleep_forever()
    raise AssertionError


async def number(gateway: PluginGateway, query: Mapping[str, str]) -> Any:
    return 5


async def surrogate(gateway: PluginGateway, query: Mapping[str, str]) -> str:
    return "\ud800"


async def sly(gateway: PluginGateway, query: Mapping[str, str]) -> str:
    return Sly("plain")


async def rename(gateway: PluginGateway, form: Mapping[str, str]) -> str | None:
    name = form["name"]
    if name == "refused":
        raise hookgw.Invalid("This <name> is taken.")
    if name == "fails":
        raise ValueError("secret of another tenant")
    return f"<{name}> it is, {form.get('instance')}." if name else None


async def of_instance(gateway: PluginGateway, query: Mapping[str, str]) -> str:
    return Markup('<input name="name" aria-label="Name"> of {}').format(query["instance"])


FAILING = {"fail": fail, "refuse": refuse, "hang": hang, "number": number, "surrogate": surrogate}
PAGES = {"text": text, "markup": markup, "sly": sly, **FAILING}


class Plugin:
    @hookgw.hookimpl
    def hookgw_dashboard_pages(self) -> list[DashboardPage]:
        return [
            *(DashboardPage(title=f"The <{n}>", path=n, render=render) for n, render in PAGES.items()),
            DashboardPage(title="Form", path="form", render=text, submit=rename),
            DashboardPage(title="Own", path="own", render=of_instance, submit=rename, of_instance=True),
            DashboardPage(title="Seen", path="seen", render=of_instance, of_instance=True),
            DashboardPage(title="Read", path="read", render=text, needs=hookgw.Right.READ),
            DashboardPage(
                title="Told", path="told", render=of_instance, of_instance=True, needs=hookgw.Right.PAYLOADS
            ),
        ]


class Unlucky:
    """Its routes fail after its page was added."""

    @hookgw.hookimpl
    def hookgw_dashboard_pages(self) -> list[DashboardPage]:
        return [DashboardPage(title="Unlucky", path="page", render=text)]

    @hookgw.hookimpl
    def hookgw_routes(self) -> None:
        raise OSError


@pytest.fixture
def settings(settings: Settings) -> Settings:
    plugins = msgspec.structs.replace(settings.plugins, hook_timeout=0.05, optional=("unlucky",))
    return msgspec.structs.replace(settings, plugins=plugins)


@pytest.fixture
def plugins() -> dict[str, object]:
    return {"mine": Plugin(), "unlucky": Unlucky()}


async def test_a_page_is_in_the_frame_and_in_the_navigation(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("shop")
    response = await browser.get("/plugins/mine/text?name=Ana")
    assert response.status_code == 200
    assert "<h1>The &lt;text&gt;</h1>" in response.text
    assert "&lt;b&gt;Ana&lt;/b&gt;\n1 instances" in response.text
    link = '<a href="/dashboard/plugins/mine/text" aria-current="page">The &lt;text&gt;</a>'
    assert link in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]
    overview = (await browser.get("/")).text
    assert '<a href="/dashboard/plugins/mine/text">The &lt;text&gt;</a>' in overview


async def test_markup_is_markup_and_its_values_are_escaped(browser: Browser) -> None:
    page = (await browser.get("/plugins/mine/markup?name=<i>")).text
    assert "<h2>Name</h2><p>&lt;i&gt;</p>" in page


async def test_only_markup_itself_is_markup(browser: Browser) -> None:
    page = (await browser.get("/plugins/mine/sly")).text
    assert "<pre>plain</pre>" in page
    assert "<script>" not in page


@pytest.mark.parametrize("name", FAILING)
async def test_a_failing_page_names_its_plugin_and_nothing_else(browser: Browser, name: str) -> None:
    response = await browser.get(f"/plugins/mine/{name}")
    assert response.status_code == 500
    assert "The plugin &#39;mine&#39; failed; see hookgw&#39;s log." in response.text
    assert "secret" not in response.text
    assert (await browser.get("/plugins/mine/text")).status_code == 200


async def test_there_is_no_other_page(browser: Browser) -> None:
    for path in ("mine/none", "none/text", "mine/text/more", "mine"):
        assert (await browser.get(f"/plugins/{path}")).status_code == 404


async def test_pages_need_a_global_key(visitor: Browser, gateway: Gateway) -> None:
    assert (await visitor.get("/plugins/mine/text")).status_code == 303
    created = await gateway.instances.create("shop")
    assert (await visitor.log_in(created.key)).status_code == 303
    for path in ("mine/text", "none/none"):
        assert (await visitor.get(f"/plugins/{path}")).status_code == 403
    assert "/plugins/mine" not in (await visitor.get("/")).text


async def test_a_form_reaches_its_plugin(browser: Browser) -> None:
    page = "/plugins/mine/form"
    done = await browser.submit(page, page, {"name": "Ana"})
    assert done.status_code == 200
    assert '<p class="notice" role="status">&lt;Ana&gt; it is, None.</p>' in done.text
    assert 'role="status">' not in (await browser.submit(page, page, {"name": ""})).text
    refused = await browser.submit(page, page, {"name": "refused"})
    assert refused.status_code == 400
    shown = refused.text.partition('role="alert"')[2]
    assert "This &lt;name&gt; is taken." in shown
    assert "&lt;b&gt;refused&lt;/b&gt;" in shown  # its query has what was entered
    assert "&lt;b&gt;None&lt;/b&gt;" in (await browser.get(page)).text
    failed = await browser.submit(page, page, {"name": "fails"})
    assert failed.status_code == 500
    assert "secret" not in failed.text


async def test_a_form_needs_its_token_and_a_page_that_takes_it(browser: Browser) -> None:
    for page in ("/plugins/mine/form", "/plugins/mine/text"):
        forged = await browser.http.post(f"/dashboard{page}", data={"form_token": "0" * 64, "name": "x"})
        assert forged.status_code == 403
    assert (await browser.submit("/", "/plugins/mine/text", {"name": "x"})).status_code == 404


async def test_an_instance_has_pages_of_its_own(browser: Browser, visitor: Browser, gateway: Gateway) -> None:
    for name in ("mine", "other"):
        await gateway.instances.create(name, token=f"key-of-{name}")
    page = "/instances/mine/plugins/mine/own"
    assert f'href="/dashboard{page}">Own</a>' in (await browser.get("/instances/mine")).text
    assert ">Own</a>" not in (await browser.get("/")).text
    assert (await browser.get("/plugins/mine/own")).status_code == 404
    assert (await browser.get("/instances/mine/plugins/mine/form")).status_code == 404
    assert (await browser.get("/instances/none/plugins/mine/own")).status_code == 404
    await browser.submit("/", "/logout")
    await visitor.log_in("key-of-mine")
    shown = (await visitor.get(f"{page}?instance=other")).text
    assert '<input name="name" aria-label="Name"> of mine' in shown
    assert "<h1>Own of mine</h1>" in shown
    sent = await visitor.submit(page, page, {"name": "Ana", "instance": "other"})
    assert "&lt;Ana&gt; it is, mine." in sent.text
    assert '<form class="plugin"' not in (await visitor.get("/instances/mine/plugins/mine/seen")).text
    assert (await visitor.get("/instances/other/plugins/mine/own")).status_code == 403
    assert (await visitor.submit(page, "/instances/other/plugins/mine/own")).status_code == 403


async def test_a_page_needs_the_right_that_it_names(visitor: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("mine")
    maker = gateway.keys.holder_of(KEY)
    assert maker is not None
    pages = (
        "/plugins/mine/text",
        "/plugins/mine/read",
        *(f"/instances/mine/plugins/mine/{n}" for n in ("seen", "told")),
    )
    for rights, opened in (
        (["read"], pages[1:2]),
        (["read", "connect"], pages[1:3]),
        (["read", "payloads"], (pages[1], pages[3])),
    ):
        _, key = await gateway.keys.create(None, "-".join(rights), maker=maker, rights=rights)
        await visitor.log_in(key)
        assert tuple([page for page in pages if (await visitor.get(page)).status_code == 200]) == opened
        links = (await visitor.get("/")).text + (await visitor.get("/instances/mine")).text
        assert tuple(page for page in pages if f'href="/dashboard{page}"' in links) == opened
        await visitor.submit("/", "/logout")


async def test_a_plugin_that_is_switched_off_later_has_no_page(browser: Browser) -> None:
    assert "Unlucky" not in (await browser.get("/")).text
    assert (await browser.get("/plugins/unlucky/page")).status_code == 404
