"""What changes of a configuration while the gateway runs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

import hookgw
from hookgw import DeliveryState
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.public.app import Reloaded
from tests.public.config import LogSettings, Settings
from tests.public.kernel import ConfigError, StorageUnavailable
from tests.public.store import AuditQuery, DeliveryQuery
from tests.support.disks import refuse

pytestmark = pytest.mark.usefixtures("hookgw_clock")

DATA = {"key": {"remoteJid": "55@s", "fromMe": False, "id": "A"}}


def changed(kit: GatewayKit, **sections: Any) -> Settings:
    """The settings of a gateway, with other values."""
    settings = kit.gateway.settings
    for name, value in sections.items():
        if name == "options":
            value = msgspec.structs.replace(settings.plugins, options=value)
            name = "plugins"
        settings = msgspec.structs.replace(settings, **{name: value})
    return settings


async def reload(kit: GatewayKit, **sections: Any) -> Reloaded:
    return await kit.gateway.configuration.apply(changed(kit, **sections))


async def emit(kit: GatewayKit, *ids: str) -> None:
    for event_id in ids:
        await kit.emit("MESSAGES_UPSERT", DATA, event_id=event_id)


async def test_without_a_change_nothing_happens(tmp_path: Path) -> None:
    async with open_kit(tmp_path, settings={"global_webhooks": [{"url": "https://a.example/"}]}) as kit:
        before = kit.gateway.registrations
        assert await reload(kit) == Reloaded([], [], [])
        assert kit.gateway.registrations is before


async def test_webhooks_begin_change_and_end(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    url = hookgw_receiver.url
    old = {"label": "old", "url": url + "old"}
    async with open_kit(tmp_path, settings={"global_webhooks": [old]}) as kit:
        await kit.gateway.instances.create("shop")
        hookgw_receiver.will(answer(503))
        await emit(kit, "e0", "e1")
        await kit.settled()
        # Two attempts: e0 waits. The URL changes, and the rest follows in order.
        done = await reload(
            kit,
            global_webhooks=({"label": "old", "url": url + "moved"}, {"label": "new", "url": url + "new"}),
        )
        assert done.changed == ["global_webhooks.new", "global_webhooks.old"]
        await emit(kit, "e2")
        await kit.advance(10)
        got = [(request.path, request.event_id) for request in hookgw_receiver.requests]
        assert got[0] == ("/old", "e0")
        assert [pair for pair in got[1:] if pair[0] == "/moved"] == [("/moved", f"e{n}") for n in range(3)]
        assert [pair for pair in got if pair[0] == "/new"] == [("/new", "e2")]

        done = await reload(kit, global_webhooks=({"label": "new", "url": url + "new"},))
        assert done.changed == ["global_webhooks.old"]
        await emit(kit, "e3")
        await kit.advance(10)
        assert [r.path for r in hookgw_receiver.requests if r.event_id == "e3"] == ["/new"]
        audit = await kit.gateway.store.list_audit(AuditQuery(action="registration"))
        assert [(entry.actor.kind, entry.action) for entry in audit.entries][:3] == [
            ("configuration", "registration.delete"),
            ("configuration", "registration.create"),
            ("configuration", "registration.change"),
        ]
        audit = await kit.gateway.store.list_audit(AuditQuery(action="configuration"))
        assert [change.field for change in audit.entries[0].changes] == ["global_webhooks.old"]


async def test_what_is_pending_for_a_webhook_that_ends_is_parked_and_it_can_begin_again(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    block = {"label": "crm", "url": hookgw_receiver.url}
    hookgw_receiver.will(*[answer(503)] * 3)
    async with open_kit(tmp_path, settings={"global_webhooks": [block]}) as kit:
        await kit.gateway.instances.create("shop")
        await emit(kit, "e0", "e1")
        await kit.settled()
        await reload(kit, global_webhooks=())
        await kit.advance(60)
        page = await kit.gateway.history.list(DeliveryQuery(instance="shop"))
        assert [(one.state, one.reason) for one in page.deliveries] == [
            (DeliveryState.DEAD, "The registration was removed from global_webhooks.")
        ] * 2
        hookgw_receiver.requests.clear()
        # Another ordering: other lanes, while dead letters of the former ones are there.
        await reload(kit, global_webhooks=({**block, "ordering": "url"},))
        await emit(kit, "e2")
        await kit.settled()
        assert hookgw_receiver.ids == ["e2"]


async def test_another_ordering_moves_what_is_pending(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    block = {"label": "crm", "url": hookgw_receiver.url}
    hookgw_receiver.will(answer(503))
    async with open_kit(tmp_path, settings={"global_webhooks": [block]}) as kit:
        await kit.gateway.instances.create("shop")
        await emit(kit, "e0", "e1")
        await kit.settled()
        await reload(kit, global_webhooks=({**block, "ordering": "url"},))
        await emit(kit, "e2")
        await kit.advance(10)
    assert hookgw_receiver.ids == ["e0", "e0", "e1", "e2"]


async def test_a_disabled_webhook_parks_and_an_unchanged_one_stays_as_it_is(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    gone = {"label": "gone", "url": hookgw_receiver.url + "gone"}
    block = {"label": "crm", "url": hookgw_receiver.url + "crm"}
    async with open_kit(tmp_path, settings={"global_webhooks": [gone, block]}) as kit:
        await kit.gateway.instances.create("shop")
        hookgw_receiver.default = lambda request: answer(410 if request.path == "/gone" else 200)
        await emit(kit, "e0")
        await kit.settled()
        # It answered 410, and its block did not change: only a restart, or another block, enables it.
        done = await reload(kit, global_webhooks=(gone, {**block, "enabled": False}))
        assert done.changed == ["global_webhooks.crm"]
        hookgw_receiver.requests.clear()
        await emit(kit, "e1")
        await kit.advance(10)
        assert hookgw_receiver.requests == []


class Shop:
    """A plugin with options, that can change while hookgw runs."""

    def __init__(self) -> None:
        self.url = ""
        self.fails = False

    @hookgw.hookimpl
    def hookgw_secret_options(self) -> list[str]:
        return ["token"]

    @hookgw.hookimpl
    def hookgw_configure(self, options: dict[str, Any]) -> None:
        self.url = options.get("url", "")

    @hookgw.hookimpl
    def hookgw_reconfigure(self, options: dict[str, Any]) -> Callable[[], None]:
        if options.get("url") == "bad":
            raise ValueError(f"url is bad, said {options.get('token')}")
        if options.get("url") == "broken":
            raise RuntimeError("a bug")

        def use() -> None:
            if self.fails:
                raise RuntimeError("a bug")
            self.url = options.get("url", "")

        return use


class Fixed:
    """A plugin whose options need a restart."""

    @hookgw.hookimpl
    def hookgw_configure(self, options: dict[str, Any]) -> None:
        pass


class Simple:
    """A plugin without options."""

    @hookgw.hookimpl
    def hookgw_event_accepted(self) -> None:
        pass


async def test_options_of_plugins(tmp_path: Path) -> None:
    shop = Shop()
    plugins = {"shop": shop, "fixed": Fixed()}
    settings = {"plugins": {"options": {"shop": {"url": "a"}, "fixed": {"n": 1}}}}
    async with open_kit(tmp_path, plugins=plugins, settings=settings) as kit:
        done = await reload(
            kit,
            options={
                "shop": {"url": "b"},
                "fixed": {"n": 2},
                "simulator": {"rate": 3, "servers": ["https://x"]},
            },
        )
        assert shop.url == "b"
        assert done.changed == ["plugins.options.shop", "plugins.options.simulator"]
        assert done.needs_restart == ["plugins.options.fixed", "plugins.options.simulator.servers"]
        # What needs a restart is named again, and what is in use is no change.
        done = await reload(kit, options={"shop": {"url": "b"}, "fixed": {"n": 2}})
        assert (done.changed, done.needs_restart) == (
            ["plugins.options.simulator"],
            ["plugins.options.fixed"],
        )
        # No block any more: the options are the defaults.
        await reload(kit, options={"fixed": {"n": 1}})
        assert shop.url == ""


class Mute:
    """A plugin that a registration concerns once its options say so."""

    def __init__(self) -> None:
        self.on = False

    @hookgw.hookimpl
    def hookgw_configure(self, options: dict[str, Any]) -> None:
        pass

    @hookgw.hookimpl
    def hookgw_reconfigure(self, options: dict[str, Any]) -> Callable[[], None]:
        def use() -> None:
            self.on = options.get("on", False)

        return use

    @hookgw.hookimpl
    def hookgw_concerns(self) -> bool:
        return self.on

    @hookgw.hookimpl
    def hookgw_filter(self) -> bool:
        return False


async def test_other_registrations_may_concern_a_plugin_with_other_options(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with open_kit(tmp_path, plugins={"mute": Mute()}) as kit:
        await kit.register(hookgw_receiver.url)
        for number, on in enumerate([False, True, False]):
            await reload(kit, options={"mute": {"on": on}})
            await emit(kit, f"e{number}")
            await kit.settled()
    assert hookgw_receiver.ids == ["e0", "e2"]


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"options": {"shop": {"url": "bad", "token": "very-secret"}}},
            "options.shop: url is bad, said ****",
        ),
        ({"options": {"shop": {"url": "broken"}}}, "options.shop: .*RuntimeError: a bug"),
        ({"options": {"shop": ["x"]}}, "options.shop: must be a mapping of options, not a list"),
        ({"options": {"shpo": {"url": "x"}}}, "options.shpo: no plugin has this name. Did you mean shop?"),
        ({"options": {"simple": {"url": "x"}}}, "options.simple: this plugin takes no options"),
        ({"options": {"simulator": {"servers": ["x"]}}}, r"options.simulator: servers\[0\]"),
        ({"global_webhooks": ({"url": "nothing"},)}, r"global_webhooks\[0\]\.url"),
        (
            {"global_webhooks": ({"url": "line://a:1", "plugins": {"simple": {}}},)},
            r"(?s)plugins\.simple: .*url: No plugin sends to line://",
        ),
    ],
)
async def test_a_mistake_is_named_and_changes_nothing(
    tmp_path: Path, sections: dict[str, Any], said: str
) -> None:
    shop = Shop()
    fine = {"options": {"shop": {"url": "new"}}, "global_webhooks": ({"url": "https://new.example/"},)}
    async with open_kit(tmp_path, plugins={"shop": shop, "simple": Simple()}) as kit:
        with pytest.raises(ConfigError) as caught:
            await reload(kit, **(fine | sections))
        assert shop.url == ""
        await kit.gateway.instances.create("shop")
        assert await kit.emit("MESSAGES_UPSERT", DATA)
        page = await kit.gateway.history.list(DeliveryQuery(instance="shop"))
        assert page.deliveries == []
    assert re.search(said.replace("****", r"\*+"), str(caught.value)), caught.value
    assert "very-secret" not in str(caught.value)


async def test_a_plugin_that_fails_to_use_its_options_is_reported_and_the_rest_holds(tmp_path: Path) -> None:
    shop = Shop()
    shop.fails = True
    async with open_kit(tmp_path, plugins={"shop": shop}) as kit:
        with structlog.testing.capture_logs():
            done = await reload(
                kit,
                options={"shop": {"url": "b"}},
                global_webhooks=({"label": "a", "url": "https://a.example/"},),
            )
        assert done.changed == ["global_webhooks.a", "plugins.options.shop"]
        (failure,) = kit.plugin_failures
        assert (failure.plugin, failure.hook) == ("shop", "hookgw_reconfigure")
        kit.plugin_failures.clear()


async def test_other_keys_need_a_restart(tmp_path: Path) -> None:
    async with open_kit(tmp_path) as kit:
        settings = changed(kit, log=LogSettings(level="debug", format="json"))
        settings = msgspec.structs.replace(
            settings,
            server=msgspec.structs.replace(settings.server, bind=("127.0.0.1:9",)),
            auth=msgspec.structs.replace(settings.auth, global_key="another-long-key"),
        )
        done = await kit.gateway.configuration.apply(settings)
        assert done.changed == ["log.level"]
        assert done.needs_restart == ["server.bind", "auth.global_key", "log.format"]
        done = await kit.gateway.configuration.apply(settings)
        assert (done.changed, len(done.needs_restart)) == ([], 3)


async def test_a_disk_that_refuses_changes_nothing_and_a_further_reload_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()
    new = {
        "options": {"shop": {"url": "b"}},
        "global_webhooks": ({"label": "a", "url": "https://a.example/"},),
    }
    async with open_kit(tmp_path, plugins={"shop": shop}) as kit:
        with monkeypatch.context() as patch:
            patch.setattr(kit.gateway.store, "put_value", refuse)
            with pytest.raises(StorageUnavailable):
                await reload(kit, **new)
        assert shop.url == ""
        done = await reload(kit, **new)
        assert done.changed == ["global_webhooks.a", "plugins.options.shop"]
