import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import httpx
import pytest
import trio

from hookgw import Event, Gateway
from tests.api.conftest import KEY, gateway, plugins, server_settings, settings, storage
from tests.public.app import Dashboard
from tests.public.config import ServerSettings
from tests.public.web import AppApplication as Application
from tests.public.web import serve
from tests.public.webhooks import parse_registration
from tests.support.application import create_app
from tests.support.session_cookie import session_cookie

__all__ = ["KEY", "gateway", "plugins", "server_settings", "settings", "storage"]


@pytest.fixture
def dashboard(gateway: Gateway) -> Dashboard:
    return Dashboard(gateway)


@pytest.fixture
def app(gateway: Gateway, dashboard: Dashboard) -> Application:
    return create_app(gateway, dashboard.blueprint)


@dataclass
class Browser:
    """A client that keeps cookies, and fills in forms as a browser does.

    Attributes:
        http: sends the requests, and follows no redirect.
    """

    http: httpx.AsyncClient

    async def get(self, path: str, **options: object) -> httpx.Response:
        """Open a page of the dashboard."""
        return await self.http.get(f"/dashboard{path}", **options)  # type: ignore[arg-type]

    async def submit(self, page: str, action: str, fields: Mapping[str, object] = {}) -> httpx.Response:
        """Open a page, and send its form with these fields and the page's form token."""
        token = form_token((await self.get(page)).text)
        return await self.http.post(f"/dashboard{action}", data={"form_token": token, **fields})

    async def log_in(self, key: str) -> httpx.Response:
        """Log in with a key."""
        return await self.submit("/login", "/login", {"key": key})

    @property
    def session(self) -> str:
        """The session's cookie, as browsers send it; ``KeyError`` without one."""
        return session_cookie(self.http)


def form_token(page: str) -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    assert found is not None, page
    return found[1]


@pytest.fixture
async def url(app: Application, nursery: trio.Nursery) -> str:
    """The URL of a server with the dashboard."""
    [url] = await nursery.start(serve, app, ServerSettings(bind=("127.0.0.1:0",)))
    return str(url)


@pytest.fixture
async def visitor(url: str) -> AsyncIterator[Browser]:
    """A browser without a session."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http:
        yield Browser(http)


@pytest.fixture
async def browser(visitor: Browser) -> Browser:
    """A browser that is logged in with the global key."""
    assert (await visitor.log_in(KEY)).status_code == 303
    return visitor


async def set_webhook(gateway: Gateway, instance: str = "loja1", url: str = "http://127.0.0.1:9/x") -> None:
    change, _ = parse_registration({"url": url, "retry": {"schedule": ["1h"]}}, gateway.catalog)
    await gateway.registrations.set(instance, "default", change)


async def emit(gateway: Gateway, instance: str = "loja1") -> None:
    data = Event.encode({"state": "open"})
    event = Event(
        id="evt", kind="CONNECTION_UPDATE", instance=instance, data_json=data, time=gateway.clock.wall()
    )
    await gateway.events.accept([event])
