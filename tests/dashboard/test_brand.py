"""The operator's name, logo and colour."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.conftest import KEY
from tests.dashboard.conftest import Browser
from tests.public.app import Dashboard
from tests.public.config import (
    AuthSettings,
    BrandSettings,
    DashboardSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from tests.public.kernel import StartError
from tests.public.site import CONTRAST, LARGEST_LOGO, contrast, grounds, load_brand, read_logo, shade_of

SHEET = files("hookgw.site").joinpath("assets/dashboard.css").read_bytes()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'

byte = st.integers(0, 255)


@given(st.tuples(byte, byte, byte))
def test_every_colour_can_be_read_in_both_themes(colour: tuple[int, int, int]) -> None:
    light, dark = grounds(SHEET)
    assert len(light) > 3 < len(dark)
    for themes, end, on_accent in ((light, (0, 0, 0), (255, 255, 255)), (dark, (255, 255, 255), (0, 0, 0))):
        shade = shade_of(colour, themes, end)
        assert all(contrast(shade, ground) >= CONTRAST for ground in themes)
        assert contrast(shade, on_accent) >= CONTRAST


def test_grounds_are_found_in_both_notations() -> None:
    apart = b":root { --ground: #fff; } @media (prefers-color-scheme: dark) { :root { --ground: #000; } }"
    together = b":root { --ground: light-dark(#fff, #000); --good: light-dark(#111, #222); }"
    assert grounds(apart) == grounds(together) == ([(255, 255, 255)], [(0, 0, 0)])


def test_a_colour_that_can_be_read_stays() -> None:
    light, _ = grounds(SHEET)
    assert shade_of((0x0B, 0x4B, 0x97), light, (0, 0, 0)) == (0x0B, 0x4B, 0x97)


def test_the_contrast_is_that_of_the_standard() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((0x76, 0x76, 0x76), (255, 255, 255)) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
        (SVG, "image/svg+xml"),
        (b'<?xml version="1.0"?>\n' + SVG, "image/svg+xml"),
    ],
)
def test_a_logo_is_what_its_content_is(content: bytes, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "logo.txt"
    file.write_bytes(content)
    assert read_logo(str(file)).content_type == kind


@pytest.mark.parametrize(
    "content", [b"", b"<html><svg>", b"<?xml?><html/>", b"%PDF-1.7", PNG + bytes(LARGEST_LOGO)]
)
def test_a_file_that_is_no_picture_stops_the_start(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "logo.svg"
    file.write_bytes(content)
    with pytest.raises(StartError, match=r"dashboard\.brand\.logo"):
        read_logo(str(file))


def test_a_missing_logo_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be read"):
        load_brand(BrandSettings(logo=str(tmp_path / "none.svg")), SHEET)


@pytest.fixture
def brand(tmp_path: Path) -> BrandSettings:
    (tmp_path / "logo.svg").write_bytes(SVG)
    return BrandSettings(name="Acme & Söhne", logo=str(tmp_path / "logo.svg"), colour="#fe0")


@pytest.fixture
def settings(brand: BrandSettings, server_settings: ServerSettings, storage: StorageSettings) -> Settings:
    return Settings(
        server=server_settings,
        auth=AuthSettings(global_key=KEY),
        storage=storage,
        dashboard=DashboardSettings(brand=brand),
    )


async def test_the_login_and_every_page_show_it(visitor: Browser, dashboard: Dashboard) -> None:
    pages = [(await visitor.get("/login")).text]
    await visitor.log_in(KEY)
    pages += [(await visitor.get(entry.path or "/")).text for entry in dashboard.site.nav]
    pages.append((await visitor.get("/nowhere")).text)
    assert len(pages) > 5
    for page in pages:
        assert "Acme &amp; Söhne</a>" in page
        assert "· Acme &amp; Söhne</title>" in page
        assert re.search('href="/dashboard/assets/[0-9a-f]+/brand.css"', page)
        assert re.search('<img src="/dashboard/assets/[0-9a-f]+/logo"', page)


async def test_a_logo_runs_no_script_where_it_is_opened_alone(visitor: Browser) -> None:
    page = (await visitor.get("/login")).text
    logo = await visitor.http.get(page.split('<img src="')[1].split('"')[0])
    assert (logo.content, logo.headers["content-type"]) == (SVG, "image/svg+xml")
    assert "script-src 'self';" in logo.headers["content-security-policy"]
    assert logo.headers["x-content-type-options"] == "nosniff"


async def test_the_stylesheet_has_a_shade_for_each_theme(visitor: Browser) -> None:
    page = (await visitor.get("/login")).text
    found = re.search('href="(/dashboard/assets/[0-9a-f]+/brand.css)"', page)
    assert found is not None
    sheet = await visitor.http.get(found[1])
    assert sheet.headers["content-type"] == "text/css; charset=utf-8"
    light, _, dark = sheet.text.partition("prefers-color-scheme: dark")
    assert "--accent: #ffee00; --on-accent: #000000" in dark
    assert "#ffee00" not in light
    found = re.search("--accent: (#[0-9a-f]+)", light)
    assert found is not None
    # A theme that a page sets itself gets the same two.
    assert f"--accent: light-dark({found[1]}, #ffee00)" in dark


@pytest.mark.parametrize("brand", [BrandSettings(logo="https://CDN.example:8443/a/logo.png?x=1")])
async def test_a_logo_elsewhere_is_the_only_thing_from_there(visitor: Browser) -> None:
    page = await visitor.get("/login")
    policy = page.headers["content-security-policy"]
    assert "img-src 'self' data: https://cdn.example:8443;" in policy
    assert policy.count("cdn.example") == 1
    assert 'src="https://CDN.example:8443/a/logo.png?x=1" alt="" referrerpolicy="no-referrer"' in page.text
    assert ">hookgw</a>" in page.text


@pytest.mark.parametrize("brand", [BrandSettings()])
async def test_without_one_pages_are_hookgws(visitor: Browser) -> None:
    page = (await visitor.get("/login")).text
    assert "· hookgw</title>" in page
    assert "brand.css" not in page
