from collections.abc import Callable
from copy import deepcopy
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import structlog
import trio

from hookgw import Event, EventKind, HookgwError, Invalid, NetworkRefused, Registration, TextMessage, hookimpl
from tests.public.kernel import MASK, ConfigError, PluginFailed, StartError
from tests.public.plugins import Hooks

HooksOf = Callable[..., Hooks]


class Options(msgspec.Struct, forbid_unknown_fields=True):
    rate: float = 1.0


def plugin(**functions: Any) -> SimpleNamespace:
    """Return a plugin with these hooks, named without ``hookgw_``."""
    return SimpleNamespace(**{f"hookgw_{name}": hookimpl(function) for name, function in functions.items()})


def raising(error: BaseException) -> Callable[..., Any]:
    def implementation() -> None:
        raise error

    return implementation


async def _later() -> list[Any]:
    return []


def returning_a_coroutine() -> Any:
    return _later()


class FakeConnector:
    def __init__(self, name: Any) -> None:
        self.name = name

    async def run(self, session: Any) -> None: ...

    async def send(self, session: Any, message: Any, *, key: str) -> dict[str, Any]:
        return {}


def test_each_plugin_gets_its_options_or_an_empty_block(hooks_of: HooksOf) -> None:
    seen: dict[str, Any] = {}

    def keep(name: str) -> SimpleNamespace:
        return plugin(configure=lambda options: seen.update({name: options}))

    hooks_of(a=keep("a"), b=keep("b"), c=keep("c")).configure({"a": {"rate": 1}, "b": None})
    assert seen == {"a": {"rate": 1}, "b": {}, "c": {}}


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ({"rat": 1}, "plugins.options.mine: Object contains unknown field `rat`."),
        ({"rate": "x"}, "plugins.options.mine: Expected `float`, got `str` - at `$.rate`."),
        ([1], "plugins.options.mine: must be a mapping of options, not a list."),
    ],
)
def test_the_error_for_wrong_options_has_the_path_of_the_key(
    hooks_of: HooksOf, block: Any, sentence: str
) -> None:
    mine = plugin(configure=lambda options: msgspec.convert(options, Options) and None)
    with pytest.raises(ConfigError) as caught:
        hooks_of(mine=mine).configure({"mine": block})
    assert caught.value.messages == (sentence,)


def with_servers(hooks_of: HooksOf, servers: Any, **more: Any) -> Hooks:
    hooks = hooks_of(mine=plugin(connectors=lambda: [FakeConnector("mine")]))
    hooks.configure({"mine": {"servers": servers, **more}})
    return hooks


def test_the_servers_of_a_connector_are_hookgws_own_option(hooks_of: HooksOf) -> None:
    hooks = with_servers(hooks_of, ["https://Matrix.Internal.:8448", "http://10.0.0.5/", "https://[fd00::1]"])
    assert hooks.servers("mine") == (
        ("https", "matrix.internal", 8448),
        ("http", "10.0.0.5", 80),
        ("https", "fd00::1", 443),
    )
    assert hooks.servers("other") == ()
    assert with_servers(hooks_of, None).servers("mine") == ()


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        ("https://a", "servers must be a list, not a string."),
        ([5], "servers[0] must be a string, not a number."),
        (["matrix.internal"], "servers[0]: The URL must begin with http:// or https://, as in "),
        (
            ["https://a", "https://user:hunter2@a"],
            "servers[1]: The URL must not contain a user ",
        ),
        (["https://a/path"], "servers[0]: The URL must be only scheme, host and port, as in "),
        (["https://a/?b"], "servers[0]: The URL must be only scheme, host and port, as in "),
    ],
)
def test_wrong_servers_stop_the_start(hooks_of: HooksOf, servers: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_servers(hooks_of, servers)
    (message,) = caught.value.messages
    assert message.startswith(f"plugins.options.mine: {sentence}")
    assert "hunter2" not in message


def test_every_other_option_needs_the_hook(hooks_of: HooksOf) -> None:
    with pytest.raises(ConfigError, match="this plugin takes no options"):
        with_servers(hooks_of, [], rate=1)


def test_a_plugin_without_connectors_may_have_servers_of_its_own(hooks_of: HooksOf) -> None:
    seen: list[Any] = []
    hooks_of(mine=plugin(configure=lambda options: seen.append(options))).configure({"mine": {"servers": 5}})
    assert seen == [{"servers": 5}]


def test_wrong_servers_switch_an_optional_plugin_off(hooks_of: HooksOf) -> None:
    seen: list[Any] = []
    mine = plugin(configure=lambda options: seen.append(options), connectors=lambda: [FakeConnector("mine")])
    hooks = hooks_of(mine=mine, optional=("mine",))
    hooks.configure({"mine": {"servers": [5]}})
    assert (hooks.connectors(), seen) == ({}, [])


def test_all_wrong_blocks_are_named(hooks_of: HooksOf) -> None:
    hooks = hooks_of(
        mine=plugin(configure=raising(ValueError("rate must be positive."))),
        deaf=plugin(filter=lambda event: None),
    )
    with pytest.raises(ConfigError) as caught:
        hooks.configure({"mine": {}, "deaf": {}, "min": {}})
    assert caught.value.messages == (
        "plugins.options.deaf: this plugin takes no options. Remove the block.",
        "plugins.options.min: no plugin has this name. Did you mean mine?",
        "plugins.options.mine: rate must be positive.",
    )


def test_the_options_of_optional_plugins_stop_no_start(hooks_of: HooksOf) -> None:
    hooks = hooks_of(
        optional=("picky", "deaf", "wrong", "missing"),
        picky=plugin(configure=raising(ValueError("rate must be positive.")), filter=lambda event: None),
        deaf=plugin(encode=lambda event: None),
        wrong=plugin(configure=lambda options: None),
        good=plugin(configure=lambda options: None, transform=lambda event: None),
    )
    hooks.configure({"picky": {}, "deaf": {}, "wrong": [1], "missing": {}})
    assert [(info.name, info.error) for info in hooks.plugins()] == [
        ("picky", "Plugin 'picky' failed in hookgw_configure: rate must be positive"),
        ("deaf", "Plugin 'deaf' failed in hookgw_configure: this plugin takes no options. Remove the block"),
        ("wrong", "Plugin 'wrong' failed in hookgw_configure: must be a mapping of options, not a list"),
        ("good", None),
    ]
    assert not hooks.implements("hookgw_filter")
    assert not hooks.implements("hookgw_encode")
    assert hooks.implements("hookgw_transform")


def test_kinds_have_the_name_of_their_plugin(hooks_of: HooksOf) -> None:
    kind = EventKind(name="ORDER_PAID", meaning="An order was paid.")
    hooks = hooks_of(
        crm=plugin(event_kinds=lambda: [kind]),
        none=plugin(event_kinds=lambda: None),
        two=plugin(event_kinds=lambda: (msgspec.structs.replace(kind, name="ORDER_SENT", plugin="crm"),)),
    )
    assert [(found.name, found.plugin) for found in hooks.kinds()] == [
        ("ORDER_PAID", "crm"),
        ("ORDER_SENT", "two"),
    ]


def test_each_optional_plugin_with_a_conflict_is_switched_off(hooks_of: HooksOf) -> None:
    simulators = {name: plugin(connectors=lambda: [FakeConnector("one")]) for name in ("a", "b", "c")}
    hooks = hooks_of(optional=("b", "c"), **simulators)
    assert [*hooks.connectors()] == ["one"]
    assert [info.name for info in hooks.plugins() if info.enabled] == ["a"]


def test_connectors_are_returned_by_name(hooks_of: HooksOf) -> None:
    one, two = FakeConnector("one"), FakeConnector("two")
    hooks = hooks_of(a=plugin(connectors=lambda: [one]), b=plugin(connectors=lambda: [two]))
    assert {name: connector.name for name, connector in hooks.connectors().items()} == {
        "one": "one",
        "two": "two",
    }


CALLED_AT_START: list[tuple[str, Callable[[Hooks], object]]] = [
    ("event_kinds", lambda hooks: hooks.kinds()),
    ("connectors", lambda hooks: hooks.connectors()),
    ("dashboard_pages", lambda hooks: hooks.dashboard_pages()),
    ("configure", lambda hooks: hooks.configure({})),
    ("routes", lambda hooks: hooks.routes(None, lambda _: None, lambda *_: None)),  # type: ignore[arg-type, return-value]
    ("commands", lambda hooks: hooks.commands(None, lambda *_: None)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("hook", "call"), CALLED_AT_START)
@pytest.mark.parametrize("error", [KeyError("key"), SystemExit(3)])
def test_a_failure_stops_the_start(hooks_of: HooksOf, hook: str, call: Any, error: BaseException) -> None:
    with pytest.raises(StartError) as caught:
        call(hooks_of(mine=plugin(**{hook: raising(error)})))
    assert f"Plugin 'mine' failed in hookgw_{hook}: {type(error).__name__}" in str(caught.value)
    assert "Fix the plugin, or add mine to plugins.disabled or plugins.optional." in str(caught.value)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(("hook", "call"), CALLED_AT_START)
def test_a_failing_optional_plugin_is_switched_off(hooks_of: HooksOf, hook: str, call: Any) -> None:
    broken = plugin(**{hook: raising(KeyError("key")), "filter": lambda event: False})
    hooks = hooks_of(optional=("broken",), broken=broken, good=plugin(encode=lambda event: None))
    with structlog.testing.capture_logs() as logs:
        call(hooks)
    assert [entry["plugin"] for entry in logs] == ["broken"]
    assert not hooks.implements("hookgw_filter")
    assert hooks.implements("hookgw_encode")
    info, good = hooks.plugins()
    assert (info.enabled, good.enabled) == (False, True)
    assert "KeyError" in (info.error or "")


@pytest.mark.parametrize(("hook", "call"), CALLED_AT_START)
def test_a_coroutine_from_a_plain_function_is_refused(hooks_of: HooksOf, hook: str, call: Any) -> None:
    with pytest.raises(StartError, match="this hook cannot be async"):
        call(hooks_of(mine=plugin(**{hook: returning_a_coroutine})))


def test_any_other_awaitable_is_refused(hooks_of: HooksOf) -> None:
    class Waiting:
        def __await__(self) -> Any:
            yield

    with pytest.raises(StartError, match="this hook cannot be async"):
        hooks_of(mine=plugin(event_kinds=lambda: Waiting())).kinds()


def with_blocks(registration: Registration, **blocks: Any) -> Registration:
    return msgspec.structs.replace(registration, plugins=blocks)


def test_a_plugin_checks_its_block_of_a_registration(hooks_of: HooksOf, registration: Registration) -> None:
    seen: list[Any] = []
    checker = plugin(check_registration=lambda options, registration: seen.append((options, registration)))
    subject = with_blocks(registration, mine={"rate": 1})
    hooks = hooks_of(mine=checker, silent=checker)
    hooks.check_registration(registration)
    hooks.check_registration(subject)
    assert seen == [({"rate": 1}, subject)]


def test_what_a_plugin_changes_in_a_registration_that_it_checks_is_not_stored(
    hooks_of: HooksOf, registration: Registration
) -> None:
    def check(options: dict[str, Any], registration: Registration) -> None:
        options.clear()
        registration.plugins.clear()
        registration.headers["x-more"] = "1"

    checked = with_blocks(registration, mine={"rate": 1}, other={"rate": 2})
    before = deepcopy(checked)
    other = plugin(check_registration=check, filter=lambda event: None)
    hooks_of(mine=plugin(check_registration=check), other=other).check_registration(checked)
    assert checked == before


def test_an_option_that_a_plugin_takes_out_of_its_block_stays_masked(hooks_of: HooksOf) -> None:
    def configure(options: dict[str, Any]) -> None:
        options.pop("token", None)
        options["nested"].clear()

    def reconfigure(options: dict[str, Any]) -> Any:
        configure(options)
        return lambda: None

    hooks = hooks_of(
        mine=plugin(
            configure=configure,
            reconfigure=reconfigure,
            secret_options=lambda: ["token", "nested"],
            event_kinds=raising(RuntimeError("old-token-1 new-token-1 old-inner new-inner")),
        )
    )
    old = {"mine": {"token": "old-token-1", "nested": {"a": "old-inner"}}}
    hooks.configure(deepcopy(old))
    with pytest.raises(StartError, match=r"\*{8} new-token-1 \*{8} new-inner"):
        hooks.kinds()
    assert hooks.check_options_again(deepcopy(old)).changed == []
    hooks.check_options_again({"mine": {"token": "new-token-1", "nested": {"a": "new-inner"}}}).apply()
    with pytest.raises(StartError, match=r"old-token-1 \*{8} old-inner \*{8}"):
        hooks.kinds()


def test_all_wrong_blocks_of_a_registration_are_named(hooks_of: HooksOf, registration: Registration) -> None:
    refuse = plugin(check_registration=raising(ValueError("rate must be positive")))
    hooks = hooks_of(mine=refuse, deaf=plugin(filter=lambda event: None))
    with pytest.raises(Invalid) as caught:
        hooks.check_registration(with_blocks(registration, mine={}, deaf={}, min={}, xyz={}))
    assert caught.value.messages == (
        "webhook.plugins.mine: rate must be positive.",
        "webhook.plugins.deaf: this plugin takes no options for a registration.",
        "webhook.plugins.min: no plugin has this name. Did you mean mine?",
        "webhook.plugins.xyz: no plugin has this name. Remove the block, or add the plugin.",
    )


def test_a_block_of_a_plugin_that_is_switched_off_is_refused(
    hooks_of: HooksOf, registration: Registration
) -> None:
    hooks = hooks_of(optional=("mine",), mine=plugin(connectors=lambda: 5, check_registration=lambda: None))
    hooks.connectors()
    subject = with_blocks(registration, mine={})
    with pytest.raises(
        Invalid, match=r"^webhook\.plugins\.mine: this plugin is switched off\. Remove the block\.$"
    ):
        hooks.check_registration(subject)
    # The configuration is the operator's, who made the plugin optional.
    hooks.check_configured(subject)


def test_a_disabled_registration_may_keep_blocks_that_nothing_accepts(
    hooks_of: HooksOf, registration: Registration
) -> None:
    hooks = hooks_of(mine=plugin(check_registration=raising(ValueError("no"))))
    stored = with_blocks(registration, mine={}, gone={})
    disabled = msgspec.structs.replace(stored, enabled=False)
    hooks.check_registration(disabled, stored)
    for new, old in ((stored, disabled), (with_blocks(disabled, gone={}), stored), (disabled, None)):
        with pytest.raises(Invalid):
            hooks.check_registration(new, old)


def test_a_block_must_be_an_object(hooks_of: HooksOf, registration: Registration) -> None:
    hooks = hooks_of(mine=plugin(check_registration=lambda options: None))
    with pytest.raises(Invalid, match=r"webhook\.plugins\.mine: must be an object, not true\."):
        hooks.check_registration(with_blocks(registration, mine=True))


def test_any_other_exception_is_the_plugins_failure(hooks_of: HooksOf, registration: Registration) -> None:
    hooks = hooks_of(mine=plugin(check_registration=raising(KeyError("key"))))
    with pytest.raises(PluginFailed, match="'mine' failed in hookgw_check_registration: KeyError"):
        hooks.check_registration(with_blocks(registration, mine={}))


def test_an_error_without_a_message_is_named_by_its_type(hooks_of: HooksOf) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.options\.mine: ValueError\."):
        hooks_of(mine=plugin(configure=raising(ValueError()))).configure({})


def test_routes_and_commands_reach_every_plugin(hooks_of: HooksOf) -> None:
    seen: list[Any] = []
    mine = plugin(
        routes=lambda app, gateway: seen.append((app, gateway)), commands=lambda group: seen.append(group)
    )
    hooks = hooks_of(mine=mine)
    hooks.routes("app", lambda _: "gateway", lambda *_: None)  # type: ignore[arg-type, return-value]
    hooks.commands("group", lambda *_: None)  # type: ignore[arg-type]
    assert seen == [("app", "gateway"), "group"]


async def test_background_tasks_get_the_gateway(hooks_of: HooksOf) -> None:
    seen: list[Any] = []

    async def run(gateway: Any) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(gateway)

    hooks = hooks_of(a=plugin(run=run), b=plugin(run=lambda: seen.append("plain")))
    running = hooks.background("hookgw_run")
    assert [name for name, _ in running] == ["a", "b"]
    for _, function in running:
        await function(cast("Any", "gateway"))
    assert seen == ["gateway", "plain"]


async def test_a_background_task_cannot_end_the_process(hooks_of: HooksOf) -> None:
    ((_, run),) = hooks_of(mine=plugin(run=raising(SystemExit(3)))).background("hookgw_run")
    with pytest.raises(PluginFailed, match="'mine' failed in hookgw_run: SystemExit: 3"):
        await run(cast("Any", "gateway"))


SECRET = "planted-option-4711"


def leak() -> Any:
    raise ValueError(f"{'x' * 490} {SECRET} is wrong")


def secretive(**functions: Any) -> SimpleNamespace:
    return plugin(secret_options=lambda: ["token"], **functions)


def test_messages_about_options_show_no_secret(hooks_of: HooksOf, registration: Registration) -> None:
    hooks = hooks_of(
        mine=secretive(configure=lambda options: leak(), check_registration=lambda options: leak())
    )
    with pytest.raises(ConfigError) as refused:
        hooks.configure({"mine": {"token": SECRET}})
    with pytest.raises(Invalid) as invalid:
        hooks.check_registration(with_blocks(registration, mine={"token": SECRET}))
    for error in (refused.value, invalid.value):
        # Masked before it is cut: half of it would be shown otherwise.
        assert "planted" not in str(error)
        assert "***" in str(error)


async def test_failures_and_their_tracebacks_show_no_secret(
    hooks_of: HooksOf, registration: Registration, event: Event
) -> None:
    hooks = hooks_of(mine=secretive(filter=lambda event: leak(), transform=lambda registration: leak()))
    hooks.configure({})
    subject = with_blocks(registration, mine={"token": SECRET})
    with structlog.testing.capture_logs() as logs:
        for call in (hooks.filter, hooks.transform):
            with pytest.raises(PluginFailed) as caught:
                await call(event, subject)
            assert "planted" not in str(caught.value)
    assert len(logs) == 2
    assert SECRET not in str([{**entry, "exc_info": None} for entry in logs])


@pytest.mark.parametrize("refusal", [NetworkRefused, Invalid, RuntimeError])
async def test_what_a_connector_says_shows_no_secret(hooks_of: HooksOf, refusal: type[Exception]) -> None:
    class Refusing(FakeConnector):
        async def send(self, session: Any, message: Any, *, key: str) -> dict[str, Any]:
            raise refusal(f"no access with {SECRET}")

    connectors = secretive(configure=lambda options: None, connectors=lambda: [Refusing("one")])
    hooks = hooks_of(mine=connectors)
    hooks.configure({"mine": {"token": SECRET}})
    with pytest.raises(HookgwError, match=r"no access with \*+$"):
        await hooks.connectors()["one"].send(
            cast("Any", None), TextMessage(number="1", text="hello"), key="k"
        )


@pytest.mark.parametrize("answer", ["token", [5], [""], [None], {"token": True}])
def test_names_of_secret_options_are_checked(hooks_of: HooksOf, answer: Any) -> None:
    with pytest.raises(StartError, match=r"'mine' failed in hookgw_secret_options.*return a list of"):
        hooks_of(mine=plugin(secret_options=lambda: answer)).configure({})


def test_a_plugin_that_is_switched_off_keeps_its_secrets(hooks_of: HooksOf) -> None:
    hooks = hooks_of(optional=("mine",), mine=secretive(connectors=lambda: [5]))
    hooks.configure({})
    hooks.connectors()
    assert hooks.secret_options.masked({"mine": {"token": "a", "url": "b"}}) == {
        "mine": {"token": MASK, "url": MASK}
    }


def test_the_servers_of_a_background_task_are_hookgws_own_option(hooks_of: HooksOf) -> None:
    async def run() -> None: ...

    hooks = hooks_of(mine=plugin(run=run))
    hooks.configure({"mine": {"servers": ["http://10.0.0.5:4318"]}})
    assert hooks.servers("mine") == (("http", "10.0.0.5", 4318),)
    checked = hooks.check_options_again({"mine": {"servers": []}})
    assert checked.needs_restart == ["plugins.options.mine.servers"]


def test_a_plugin_without_work_is_switched_off(hooks_of: HooksOf) -> None:
    mine = plugin(configure=lambda options: bool(options), attempt=lambda: None)
    hooks = hooks_of(mine=mine)
    hooks.configure({})
    assert not hooks.implements("hookgw_attempt")
    [info] = [info for info in hooks.plugins() if info.name == "mine"]
    assert (info.enabled, info.error) == (False, None)
    assert hooks.check_options_again({}).needs_restart == []
    assert hooks.check_options_again({"mine": {"a": 1}}).needs_restart == ["plugins.options.mine"]
    hooks = hooks_of(mine=mine)
    hooks.configure({"mine": {"a": 1}})
    assert hooks.implements("hookgw_attempt")
