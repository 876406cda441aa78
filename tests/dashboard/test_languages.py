"""The language of pages, and a planted language that shows which texts are not marked."""

import re
from collections.abc import Iterator
from gettext import NullTranslations
from html.parser import HTMLParser

import pytest

from hookgw import Gateway, Right
from tests.api.test_route_walk import FILLED
from tests.dashboard.conftest import KEY, Browser, emit, set_webhook
from tests.public.app import Dashboard
from tests.public.records import retold
from tests.public.web import AppApplication as Application

BEGIN, END = "⟦", "⟧"


@pytest.mark.parametrize(
    ("cookie", "header", "variable", "language"),
    [
        ("", "", "", "en"),
        ("", "", "pt_BR.UTF-8", "pt-BR"),
        ("", "fr", "es", "es"),
        ("", "en-GB,en", "es", "en"),
        ("", "es-MX, en;q=0.5", "pt", "es"),
        ("pt_BR", "es", "en", "pt-BR"),
        ("xx", "es", "", "es"),
    ],
)
async def test_a_page_has_the_language_of_its_reader(
    visitor: Browser, monkeypatch: pytest.MonkeyPatch, cookie: str, header: str, variable: str, language: str
) -> None:
    monkeypatch.setenv("HOOKGW_LANG", variable)
    visitor.http.cookies.set("hookgw_language", cookie)
    page = await visitor.get("/login", headers={"accept-language": header})
    assert f'<html lang="{language}"' in page.text
    assert page.headers["content-language"] == language
    assert (page.headers["vary"], page.headers["cache-control"]) == (
        "accept-encoding, cookie, accept-language",
        "no-store",
    )
    words = {"en": "Log in", "pt-BR": "Entrar", "es": "Entrar"}
    assert f"<h1>{words[language]}</h1>" in page.text


async def test_the_switch_keeps_the_choice_and_leads_back(browser: Browser) -> None:
    await browser.http.get("/dashboard/deliveries?state=dead")
    chosen = await browser.http.post("/dashboard/language/es?next=/deliveries%3Fstate%3Ddead")
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/dashboard/deliveries?state=dead")
    assert 'lang="es"' in (await browser.get("/deliveries")).text
    assert "Entregas" in (await browser.get("/deliveries")).text
    # Elsewhere, the interface stays English.
    assert "does not exist" in (await browser.http.get("/webhook/find/x", headers={"apikey": KEY})).text
    page = await browser.get("/deliveries?state=dead")
    assert 'formaction="/dashboard/language/en?next=/deliveries%3Fstate%3Ddead"' in page.text


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "\\evil", "/" + "x" * 3000])
async def test_the_switch_leads_nowhere_else(visitor: Browser, target: str) -> None:
    chosen = await visitor.http.post("/dashboard/language/es", params={"next": target})
    assert chosen.headers["location"] == "/dashboard/"


async def test_no_other_site_and_no_unknown_name_switches(visitor: Browser) -> None:
    elsewhere = {"sec-fetch-site": "cross-site"}
    assert (await visitor.http.post("/dashboard/language/es", headers=elsewhere)).status_code == 403
    assert (await visitor.http.post("/dashboard/language/xx")).status_code == 404
    assert not [one for one in visitor.http.cookies.jar if one.name == "hookgw_language"]


class Planted(NullTranslations):
    """A language in which each marked text is in brackets; ``before`` is in each translation, too."""

    def __init__(self, before: str = "") -> None:
        super().__init__()
        self._before = before

    def gettext(self, message: str) -> str:
        return f"{BEGIN}{self._before}{message}{END}"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)

    def pgettext(self, context: str, message: str) -> str:
        return self.gettext(message)


@pytest.fixture
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    translations = Planted(getattr(request, "param", ""))
    monkeypatch.setattr("hookgw.kernel.language.catalogue", lambda _: translations)
    monkeypatch.setenv("HOOKGW_LANG", "es")
    retold.cache_clear()
    yield
    retold.cache_clear()


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("planted", ["<script>alert(1)</script>\"'"], indirect=True)
async def test_a_translation_is_text(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    for path in ("/", "/instances/loja1", "/deliveries", "/keys", "/instances/x"):
        page = (await browser.get(path)).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;" in page


class Texts(HTMLParser):
    """Collects the texts of a page that people read."""

    SILENT = frozenset({"script", "style", "code", "pre", "kbd", "textarea"})
    VOID = frozenset({"input", "meta", "link", "br", "img", "rect", "hr", "path", "line", "circle"})
    READ = frozenset({"aria-label", "title", "placeholder", "alt", "data-label", "data-unit"})

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.read: list[str] = []
        self._open: list[tuple[str, bool]] = []

    @property
    def _is_silent(self) -> bool:
        return any(is_silent for _, is_silent in self._open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_data = "mono" in (given.get("class") or "").split() or (tag != "html" and "lang" in given)
        if not self._is_silent:
            self.read += [value for name, value in attrs if name in self.READ and value]
        if tag not in self.VOID:
            self._open.append((tag, tag in self.SILENT or is_data))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._is_silent:
            self.found.append(data.strip())


# What pages show of their world: names, addresses, words of the interface, units.
_DATA = {
    *(
        "hookgw",
        "HTTP",
        "loja1",
        "default",
        "crm",
        "JSON",
        "CSV",
        "NDJSON",
        "UTC",
        "url",
        "instance",
        "chat",
        "none",
    ),
    *(
        "v1",
        "v1a",
        "simulator",
        "evolution",
        "GOWA",
        "waha",
        "gowa",
        "min",
        "ms",
        "KiB",
        "MiB",
        "GiB",
        "acme",
    ),
    *(
        "loja",
        "tenant",
        "plan",
        "gold",
        "YOUR",
        "KEY",
        "TLS",
        "PEM",
        "Bearer",
        "authorization",
        "configuration",
    ),
    *("application", "json"),  # a media type
}
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_OF_DATA = re.compile(
    r"https?://\S+|\b(?:dlv|reg|job|key|evt)_[\w…]+|[\w.-]+\.[\w.-]+|\b[A-Z]+(?:_[A-Z]+)+\b|[a-z]+[A-Z]\w+"
)


def unmarked(page: str, names: set[str]) -> list[str]:
    texts = Texts()
    texts.feed(page)
    # A marked text may have elements in it, and other marked ones.
    rest = "\n".join([*texts.found, *texts.read])
    while (shorter := re.sub(f"{BEGIN}[^{BEGIN}{END}]*{END}", " ", rest)) != rest:
        rest = shorter
    return [
        line for line in rest.splitlines() if {*_LETTERS.findall(_OF_DATA.sub(" ", line))} - _DATA - names
    ]


@pytest.mark.usefixtures("planted")
async def test_each_text_of_each_page_is_marked(
    browser: Browser, gateway: Gateway, app: Application, dashboard: Dashboard
) -> None:
    """Mark what this names with ``_("…")``; data belongs into an element for code, or into ``_DATA``."""
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    await emit(gateway)
    names = {**FILLED, "instance": "loja1", "label": "default", "name": "dlv_1"}
    plugins = [text for one in gateway.hooks.plugins() for text in (one.name, one.source)]
    kinds = [one.name for one in gateway.catalog]
    data = set(_LETTERS.findall(" ".join([*plugins, *kinds, *gateway.instances.connectors, *Right])))
    wrong: dict[str, list[str]] = {}
    seen = set()
    for rule in app.routing.url_map.iter_rules():
        if not rule.rule.startswith("/dashboard/") or "GET" not in (rule.methods or ()):
            continue
        if "/live/" in rule.rule or "/assets/" in rule.rule or "<plugin>" in rule.rule:
            continue
        path = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: names[found[1]], rule.rule)
        page = await browser.http.get(path)
        if "text/html" not in page.headers["content-type"] or page.status_code >= 300:
            continue
        seen.add(path)
        if found := unmarked(page.text, data):
            wrong[path] = found
    assert {"/dashboard/", "/dashboard/login", "/dashboard/deliveries/loja1/dlv_1"} <= seen
    assert not wrong, "\n".join(f"{path}: {found}" for path, found in wrong.items())
