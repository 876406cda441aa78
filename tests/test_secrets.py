"""Secrets are planted wherever they can stand; then everything that can be seen is searched for them.

What is seen: every answer of every route to good and bad requests (the metrics and pages among them), every
line of the log at level debug, every body that is sent, and what the commands print.
"""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import click.testing
import pytest
import trio

from hookgw.testing import Receiver
from tests.public.command import configure_logging, run_to_end
from tests.public.command import main as command
from tests.public.config import load_settings
from tests.support.logs import log_kept
from tests.support.secrets_world import SHOWN, World, bodies, fill, look_at_pages, open_world, settle, walk


@pytest.fixture(autouse=True)
def _log_kept() -> Iterator[None]:
    with log_kept():
        yield


async def test_nothing_that_comes_out_shows_a_secret(
    tmp_path: Path, hookgw_receiver: Receiver, nursery: trio.Nursery
) -> None:
    async with open_world(tmp_path, hookgw_receiver, nursery) as world:
        await fill(world, hookgw_receiver)
        await world.call("GET", "/instance/connect/loja2")
        await look_at_pages(world)
        await walk(world, hookgw_receiver)
        await settle(world)
        for request in hookgw_receiver.requests:
            world.seen.append((f"body sent to {request.target}", request.body))
    assert len(world.seen) > 700
    assert "attempt failed" in world.log.getvalue()
    assert "Traceback" in world.log.getvalue()
    assert world.leaks(allowed=SHOWN) == []


async def test_a_proxy_that_fails_shows_no_password(
    tmp_path: Path, hookgw_receiver: Receiver, nursery: trio.Nursery
) -> None:
    async with open_world(tmp_path, hookgw_receiver, nursery, proxy=True) as world:
        body = bodies(world, hookgw_receiver)["/webhook/set/<instance>"][0]
        await world.call("POST", "/webhook/set/loja1", json=body)
        tried = await world.call("POST", "/webhook/test/loja1")
        assert "proxy" in tried.json()["error"]
        await world.call("POST", "/event/emit/loja1", json={"event": "CALL", "data": {}})
        await settle(world)
        for path in ("/delivery/list/loja1", "/lane/list", "/metrics"):
            await world.call("GET", path)
    assert world.leaks() == []


@pytest.fixture
def hookgw(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Awaitable[tuple[str, bytes]]]:
    """Call a command and give its line and all that it printed."""

    async def call(*args: str, **environ: str) -> tuple[str, bytes]:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        runner = click.testing.CliRunner()
        result = await trio.to_thread.run_sync(lambda: runner.invoke(command, args, prog_name="hookgw"))
        return f"hookgw {' '.join(args[:2])} -> {result.exit_code}", result.output.encode()

    return call


async def test_no_command_shows_a_secret(
    tmp_path: Path,
    hookgw_receiver: Receiver,
    nursery: trio.Nursery,
    hookgw: Callable[..., Awaitable[tuple[str, bytes]]],
) -> None:
    async with open_world(tmp_path, hookgw_receiver, nursery) as world:
        await fill(world, hookgw_receiver)
        given = {"HOOKGW_URL": world.url, "HOOKGW_KEY": world.global_key}
        url, header = world.url_of(hookgw_receiver), f"authorization: Bearer {world.header}"
        webhook = ("webhook", "set", "loja1")
        calls: list[tuple[str, ...]] = [
            (*webhook, url, "--header", header, "--secret", world.secret),
            (*webhook, url + "#x", "--header", header, "--secret", world.secret + "!"),
            (*webhook, url, "--secret", world.private_key[:-9], "--label", "crm"),
            (*webhook, url, "--header", f"authorization {world.header}"),
            (*webhook, url, "--plugins", f'"{world.header}'),
            ("webhook", "find", "loja1"),
            ("webhook", "test", "loja1"),
            ("webhook", "public-key", "loja1"),
            ("webhook", "find", "loja1", "--label", "crm"),
            ("instance", "list"),
            ("instance", "ingest-url", "loja2"),
            ("instance", "create", "loja1", "--token", world.token),
            ("key", "list", "loja1"),
            ("delivery", "list", "loja1"),
            ("delivery", "dead", "loja1"),
            ("lane", "list"),
            ("emit", "loja1", "NOPE", "--data", f'"{world.header}'),
            ("listen", "--port", "1", "--secret", world.secret),
            ("listen", "--public-key", world.private_key),
        ]
        for args in calls:
            for more in ((), ("--json",)):
                world.seen.append(await hookgw(*args, *more, **given))
        config = {"PLANTED_GLOBAL_KEY": world.global_key}
        for args in (("plugins",), ("check-config", str(world.folder / "config.yaml"))):
            world.seen.append(await hookgw(*args, HOOKGW_CONFIG=str(world.folder / "config.yaml"), **config))
        dead = f"http://{world.user}:{world.ops_password}@127.0.0.1:1"
        for server in (dead, dead.replace("http", "ftp"), dead + "/\n", dead.replace(":1", ":x")):
            world.seen.append(await hookgw("lane", "list", "--server", server))
    assert sum(" -> 0" in what for what, _ in world.seen if what.startswith("hookgw")) > 12
    assert world.leaks(allowed=SHOWN) == []


SPOILED = [
    ("global_key: ", "global_key: [0] "),
    ('master_key: "', 'master_key: "x'),
    ('old_master_keys: ["', 'old_master_keys: ["x'),
    ("master_key: ", "master_key: {a: b} # "),
    ('secret: "whsec_', 'secret: "whsk_'),
    ("authorization: ", "host: "),
    ("authorization: ", "bad name: "),
    ('authorization: "', 'authorization: "\\n'),
    ('headers: {authorization: "', 'headers: ["'),
    ('  url: "http', '  url: "ftp'),
    ("/ops", "/ops#x"),
    ('proxy: "http', 'proxy: "ftp'),
    ('api_key: "', 'api_key: "${NOT_SET}'),
    ('api_key: "', 'api_key: "${planted'),
    ("log: {", "log: {{"),
    ("secret:", "secret: *"),
    ("auth:", "auht:"),
]


@pytest.mark.process
@pytest.mark.parametrize(("right", "wrong"), SPOILED)
async def test_what_is_wrong_with_a_configuration_is_told_without_its_secrets(
    tmp_path: Path,
    hookgw_receiver: Receiver,
    right: str,
    wrong: str,
    hookgw: Callable[..., Awaitable[tuple[str, bytes]]],
) -> None:
    world = World(tmp_path, proxy=True)
    path = trio.Path(world.write_config(hookgw_receiver))
    text = (
        (await path.read_text())
        .replace("proxy: http", 'proxy: "http')
        .replace("@127.0.0.1:1}", '@127.0.0.1:1"}')
    )
    assert right in text
    await path.write_text(text.replace(right, wrong, 1))
    what, output = await hookgw("check-config", str(path), PLANTED_GLOBAL_KEY=world.global_key)
    assert what.endswith("-> 1"), output
    world.seen.append((what, output))
    assert world.leaks() == []


def test_a_crash_is_logged_without_secrets(tmp_path: Path) -> None:
    world = World(tmp_path, proxy=True)
    path = world.write_config(SimpleNamespace(url="http://127.0.0.1:9/"))
    settings = load_settings(path, {"PLANTED_GLOBAL_KEY": world.global_key})
    configure_logging(settings.log, world.log)

    async def crash() -> None:
        raise RuntimeError(f"a bug, with {settings!r}")

    with pytest.raises(SystemExit):
        run_to_end(crash)
    assert "a bug, with Settings" in world.log.getvalue()
    assert world.leaks() == []
