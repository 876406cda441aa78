from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import structlog
import trio
import trio.testing

from hookgw import Event, Outgoing, Registration, hookimpl
from tests.public.config import PluginsSettings
from tests.public.kernel import PluginFailed
from tests.public.plugins import Hooks, LoadedPlugins, load_plugins

HooksOf = Callable[..., Hooks]


def plugin(**functions: Any) -> SimpleNamespace:
    """Return a plugin with these hooks, named without ``hookgw_``."""
    return SimpleNamespace(**{f"hookgw_{name}": hookimpl(function) for name, function in functions.items()})


@pytest.fixture
def outgoing() -> Outgoing:
    return Outgoing(url="https://app.example/hook", body=b"{}", headers={"x-first": "1"}, attempt=1)


async def later(value: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return value


def coroutine_of(value: Any) -> Callable[..., Any]:
    async def implementation(event: Event) -> Any:
        return await later(value)

    return implementation


def plain_of(value: Any) -> Callable[..., Any]:
    def implementation(event: Event) -> Any:
        return value

    return implementation


def awaitable_of(value: Any) -> Callable[..., Any]:
    def implementation(event: Event) -> Any:
        return later(value)

    return implementation


FORMS = pytest.mark.parametrize("form", [plain_of, coroutine_of, awaitable_of])


@FORMS
@pytest.mark.parametrize(("answer", "goes"), [(None, True), (True, True), (False, False)])
async def test_filter_accepts_every_form(
    hooks_of: HooksOf, event: Event, registration: Registration, form: Any, answer: Any, goes: bool
) -> None:
    assert await hooks_of(mine=plugin(filter=form(answer))).filter(event, registration) is goes


async def test_without_plugins_nothing_changes(
    hooks_of: HooksOf, event: Event, registration: Registration, outgoing: Outgoing
) -> None:
    hooks = hooks_of()
    assert await hooks.filter(event, registration) is True
    assert await hooks.transform(event, registration) is event
    assert await hooks.encode(event, registration) is None
    await hooks.prepare(outgoing, event, registration)
    await hooks.notify("hookgw_event_accepted", event=event)
    assert outgoing.headers == {"x-first": "1"}


def test_which_hooks_a_registration_needs(hooks_of: HooksOf, registration: Registration) -> None:
    asked = []

    def only_shop(registration: Registration) -> bool:
        asked.append(registration)
        return registration.instance == "elsewhere"

    hooks = hooks_of(
        silent=plugin(encode=plain_of(None)),
        concerned=plugin(prepare=plain_of(None), concerns=lambda registration: None),
        elsewhere=plugin(filter=plain_of(False), encode=plain_of(b""), concerns=only_shop),
    )
    assert hooks.concerned(registration) == {"hookgw_encode", "hookgw_prepare"}
    elsewhere = msgspec.structs.replace(registration, instance="elsewhere")
    assert hooks.concerned(elsewhere) == {"hookgw_filter", "hookgw_encode", "hookgw_prepare"}
    assert asked == [registration, elsewhere]
    assert hooks_of().concerned(registration) == frozenset()


@pytest.mark.parametrize("answer", [0, "no", ValueError("a bug")])
def test_a_plugin_that_cannot_say_what_concerns_it_is_concerned(
    hooks_of: HooksOf, registration: Registration, answer: Any
) -> None:
    def concerns(registration: Registration) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    hooks = hooks_of(mine=plugin(filter=plain_of(False), concerns=concerns))
    with structlog.testing.capture_logs() as logs:
        assert hooks.concerned(registration) == {"hookgw_filter"}
    assert [entry["hook"] for entry in logs] == ["hookgw_concerns"]


async def test_filtering_stops_at_the_first_false(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    called = []

    def say(name: str, answer: bool) -> Any:
        def implementation(event: Event) -> bool:
            called.append(name)
            return answer

        return plugin(filter=implementation)

    hooks = hooks_of(a=say("a", True), b=say("b", False), c=say("c", True))
    assert await hooks.filter(event, registration) is False
    assert called == ["a", "b"]


@FORMS
async def test_each_transform_sees_the_previous_result(
    hooks_of: HooksOf, event: Event, registration: Registration, form: Any
) -> None:
    def shout(event: Event) -> Event:
        return event.replace(data={"text": event.data["text"].upper()})

    first = event.replace(data={"text": "bye"})
    hooks = hooks_of(
        first=plugin(transform=form(first)), shout=plugin(transform=shout), none=plugin(transform=form(None))
    )
    assert (await hooks.transform(event, registration)).data == {"text": "BYE"}


@FORMS
async def test_the_first_encoded_body_is_used(
    hooks_of: HooksOf, event: Event, registration: Registration, form: Any
) -> None:
    hooks = hooks_of(
        none=plugin(encode=form(None)), empty=plugin(encode=form(b"")), other=plugin(encode=form(b"2"))
    )
    assert await hooks.encode(event, registration) == b""


async def test_arguments_are_passed_by_name(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    seen: list[Any] = []

    def swapped(registration: Registration, event: Event) -> None:
        seen.append((event, registration))

    def keywords(*, event: Event, limit: int = 3, registration: Registration) -> None:
        seen.append((event, registration))

    def all_in_order(event: Event, registration: Registration) -> None:
        seen.append((event, registration))

    def only_one(registration: Registration) -> None:
        seen.append((event, registration))

    forms = {form.__name__: plugin(filter=form) for form in (swapped, keywords, all_in_order, only_one)}
    assert await hooks_of(**forms).filter(event, registration)
    assert seen == [(event, registration)] * 4


async def test_tryfirst_and_trylast_are_honoured(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    called: list[str] = []

    def say(name: str, tryfirst: bool = False, trylast: bool = False) -> SimpleNamespace:
        mark = hookimpl(tryfirst=tryfirst, trylast=trylast)
        return SimpleNamespace(hookgw_filter=mark(lambda event: called.append(name)))

    hooks = hooks_of(a=say("a", trylast=True), b=say("b"), c=say("c"), d=say("d", tryfirst=True))
    await hooks.filter(event, registration)
    assert called == ["d", "b", "c", "a"]


WRONG = [
    ("filter", "no", "it returned a value of type str; return True, False or None"),
    ("filter", 0, "it returned a value of type int; return True, False or None"),
    ("transform", {"text": "bye"}, "it returned a value of type dict; return event.replace(data=…) or None"),
    ("encode", "body", "it returned a value of type str; return bytes or None"),
]


@FORMS
@pytest.mark.parametrize(("hook", "answer", "reason"), WRONG)
async def test_a_wrong_result_is_a_failure(
    hooks_of: HooksOf,
    event: Event,
    registration: Registration,
    form: Any,
    hook: str,
    answer: Any,
    reason: str,
) -> None:
    hooks = hooks_of(mine=plugin(**{hook: form(answer)}))
    with pytest.raises(PluginFailed) as caught:
        await getattr(hooks, hook)(event, registration)
    assert (caught.value.plugin, caught.value.hook, caught.value.reason) == ("mine", f"hookgw_{hook}", reason)


@pytest.mark.parametrize("change", [{"id": "msg_2"}, {"instance": "other"}])
async def test_a_transform_must_keep_id_and_instance(
    hooks_of: HooksOf, event: Event, registration: Registration, change: dict[str, Any]
) -> None:
    hooks = hooks_of(mine=plugin(transform=plain_of(msgspec.structs.replace(event, **change))))
    with pytest.raises(PluginFailed, match="changed the event's id or instance"):
        await hooks.transform(event, registration)


def raising(error: BaseException) -> Callable[..., Any]:
    def implementation() -> None:
        raise error

    return implementation


def raising_later(error: BaseException) -> Callable[..., Any]:
    async def implementation() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    return implementation


def raising_in_a_nursery(error: BaseException) -> Callable[..., Any]:
    async def implementation() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(raising_later(error))
            await trio.sleep_forever()

    return implementation


@pytest.mark.parametrize("form", [raising, raising_later, raising_in_a_nursery])
@pytest.mark.parametrize("error", [KeyError("key"), SystemExit(3)])
async def test_an_exception_is_the_plugins_failure(
    hooks_of: HooksOf, event: Event, registration: Registration, form: Any, error: BaseException
) -> None:
    hooks = hooks_of(mine=plugin(filter=form(error)))
    with pytest.raises(PluginFailed) as caught:
        await hooks.filter(event, registration)
    assert caught.value.reason == f"{type(error).__name__}: {error}"


async def test_an_async_hook_has_a_deadline(
    hooks_of: HooksOf, event: Event, registration: Registration, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.autojump_threshold = 0

    async def stuck(event: Event) -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    with pytest.raises(PluginFailed, match=r"took longer than 10s \(plugins.hook_timeout\)"):
        await hooks_of(mine=plugin(filter=stuck)).filter(event, registration)
    assert trio.current_time() - began == pytest.approx(10)


async def test_an_async_hook_may_use_all_of_its_time(
    hooks_of: HooksOf, event: Event, registration: Registration, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.autojump_threshold = 0

    async def slow(event: Event) -> bool:
        await trio.sleep(9.999)
        return False

    assert await hooks_of(mine=plugin(filter=slow)).filter(event, registration) is False


async def cancelled_while(hooks: Hooks, event: Event, registration: Registration) -> bool:
    """Cancel a filter from outside, and return whether it ended by cancellation."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hooks.filter, event, registration)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    return scope.cancelled_caught


async def test_cancellation_is_not_a_failure(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    async def stuck(event: Event) -> None:
        await trio.sleep_forever()

    with structlog.testing.capture_logs() as logs:
        assert await cancelled_while(hooks_of(mine=plugin(filter=stuck)), event, registration)
    assert logs == []


async def test_a_failure_during_cancellation_is_reported_and_the_cancellation_passes_through(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    async def fail_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("at the end")

    async def two_tasks(event: Event) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            nursery.start_soon(trio.sleep_forever)

    with structlog.testing.capture_logs() as logs:
        assert await cancelled_while(hooks_of(mine=plugin(filter=two_tasks)), event, registration)
    assert [(entry["plugin"], entry["hook"]) for entry in logs] == [("mine", "hookgw_filter")]


async def test_a_failing_observer_changes_nothing(tmp_path: Any, event: Event) -> None:
    seen: list[Event] = []
    failures: list[PluginFailed] = []
    error = RuntimeError("broken")
    loaded = _loaded(
        tmp_path,
        broken=plugin(event_accepted=raising(error)),
        slow=plugin(event_accepted=raising_later(error)),
        good=plugin(event_accepted=lambda event: seen.append(event)),
    )
    hooks = Hooks(loaded, on_failure=failures.append)
    with structlog.testing.capture_logs() as logs:
        await hooks.notify("hookgw_event_accepted", event=event)
    assert seen == [event]
    assert [failure.plugin for failure in failures] == ["broken", "slow"]
    assert [(entry["plugin"], entry["hook"], entry["reason"]) for entry in logs] == [
        (name, "hookgw_event_accepted", "RuntimeError: broken") for name in ("broken", "slow")
    ]
    assert all("RuntimeError: broken" in entry["exception"] for entry in logs)


async def test_an_observer_gets_the_arguments_it_takes(hooks_of: HooksOf, registration: Registration) -> None:
    seen: list[Any] = []
    mine = plugin(dead_letter=lambda reason, delivery: seen.append((delivery, reason)))
    await hooks_of(mine=mine).notify(
        "hookgw_dead_letter", reason="gone", registration=registration, delivery="dlv_1"
    )
    assert seen == [("dlv_1", "gone")]


async def test_a_failure_in_a_delivery_is_counted(
    tmp_path: Any, event: Event, registration: Registration
) -> None:
    failures: list[PluginFailed] = []
    loaded = _loaded(tmp_path, mine=plugin(encode=plain_of("text")))
    with pytest.raises(PluginFailed) as caught:
        await Hooks(loaded, on_failure=failures.append).encode(event, registration)
    assert failures == [caught.value]


async def test_prepare_changes_the_headers(
    hooks_of: HooksOf, event: Event, registration: Registration, outgoing: Outgoing
) -> None:
    def sign(request: Outgoing) -> None:
        request.headers["x-signed"] = f"{request.attempt}"

    async def drop(request: Outgoing) -> None:
        await trio.lowlevel.checkpoint()
        del request.headers["x-first"]

    await hooks_of(sign=plugin(prepare=sign), drop=plugin(prepare=drop)).prepare(
        outgoing, event, registration
    )
    assert outgoing.headers == {"x-signed": "1"}


@pytest.mark.parametrize(("field", "value"), [("url", "https://other.example/"), ("body", b"other")])
async def test_prepare_must_not_change_url_or_body(
    hooks_of: HooksOf, event: Event, registration: Registration, outgoing: Outgoing, field: str, value: Any
) -> None:
    mine = plugin(prepare=lambda request: setattr(request, field, value))
    with pytest.raises(PluginFailed, match="only headers may change"):
        await hooks_of(mine=mine).prepare(outgoing, event, registration)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (
            {"x-own": "a\r\nb: c"},
            "it set a header that cannot be sent: request.headers.x-own must be visible",
        ),
        ({"webhook-id": "1"}, "request.headers.webhook-id cannot be set"),
        ({"host": "other.example"}, "request.headers.host cannot be set"),
        ({"x-number": 1}, "request.headers.x-number must be a string"),
        ({"": "1"}, "is not a header name"),
        ({"X-Upper": "1"}, "it set a header 'X-Upper'; write the name as a string in lower case"),
        ({3: "1"}, "it set a header 3; write the name as a string in lower case"),
    ],
)
async def test_an_invalid_header_is_the_plugins_failure(
    hooks_of: HooksOf,
    event: Event,
    registration: Registration,
    outgoing: Outgoing,
    header: dict[Any, Any],
    reason: str,
) -> None:
    mine = plugin(prepare=lambda request: request.headers.update(header))
    with pytest.raises(PluginFailed) as caught:
        await hooks_of(mine=mine).prepare(outgoing, event, registration)
    assert (caught.value.plugin, caught.value.hook) == ("mine", "hookgw_prepare")
    assert reason in caught.value.reason


async def test_unchanged_headers_are_not_checked(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    request = Outgoing(url="u", body=b"", headers={"Host": "as-it-was"}, attempt=1)
    await hooks_of(mine=plugin(prepare=lambda request: None)).prepare(request, event, registration)
    assert request.headers == {"Host": "as-it-was"}


def test_implements_knows_only_real_hooks(hooks_of: HooksOf) -> None:
    hooks = hooks_of(mine=plugin(filter=plain_of(None)))
    assert hooks.implements("hookgw_filter")
    assert not hooks.implements("hookgw_transform")
    with pytest.raises(KeyError):
        hooks.implements("hookgw_fitler")


def _loaded(tmp_path: Any, **plugins: object) -> LoadedPlugins:
    return load_plugins(PluginsSettings(first_party=False, folders=()), base=tmp_path, extra=plugins)
