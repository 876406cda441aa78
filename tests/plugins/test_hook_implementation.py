from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hookgw import hookimpl
from hookgw.plugins import hookspecs
from tests.public.plugins import HOOKS, PLAIN_HOOKS, check_plugin, new_manager


def plugin(**functions: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in functions.items()})


def check(subject: object) -> tuple[str, ...]:
    return check_plugin(subject, new_manager())


def test_every_hookspec_is_a_hook_with_its_arguments() -> None:
    assert {name for name in vars(hookspecs) if name.startswith("hookgw_")} == set(HOOKS)
    assert HOOKS["hookgw_filter"] == ("event", "registration")
    assert HOOKS["hookgw_event_kinds"] == ()
    assert set(HOOKS) >= PLAIN_HOOKS


def test_hooks_are_named_in_the_order_of_the_hookspecs() -> None:
    async def transform(event: Any, registration: Any) -> None: ...

    def kinds() -> None: ...

    subject = plugin(hookgw_transform=transform, hookgw_event_kinds=kinds)
    assert check(subject) == ("hookgw_event_kinds", "hookgw_transform")


def test_a_module_without_hooks_is_accepted() -> None:
    assert check(SimpleNamespace(helper=lambda: None)) == ()


def test_an_implementation_may_have_another_name() -> None:
    subject = SimpleNamespace(only_groups=hookimpl(specname="hookgw_filter")(lambda event: True))
    assert check(subject) == ("hookgw_filter",)


def test_an_unknown_hook_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r"no hook hookgw_fitler\. Did you mean hookgw_filter\?"):
        check(plugin(hookgw_fitler=lambda event: True))


def test_an_unknown_hook_marked_optional_is_ignored() -> None:
    assert check(SimpleNamespace(hookgw_new=hookimpl(optionalhook=True)(lambda: None))) == ()


def test_an_unmarked_hook_is_refused() -> None:
    with pytest.raises(ValueError, match=r"hookgw_filter is not marked: write @hookgw\.hookimpl"):
        check(SimpleNamespace(hookgw_filter=lambda event: True))


def test_a_variable_named_like_a_hook_is_ignored() -> None:
    assert check(SimpleNamespace(hookgw_version="1")) == ()


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(
        ValueError, match="hookgw_filter has no argument evnt; its arguments are: event, registration"
    ):
        check(plugin(hookgw_filter=lambda evnt: True))


def test_an_argument_of_a_hook_without_arguments_is_refused() -> None:
    with pytest.raises(ValueError, match="hookgw_connectors has no argument app; its arguments are: none"):
        check(plugin(hookgw_connectors=lambda app: []))


def test_an_extra_argument_with_a_default_is_allowed() -> None:
    assert check(plugin(hookgw_filter=lambda event, limit=3: True)) == ("hookgw_filter",)


def test_catch_all_arguments_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"takes \*\*kwargs; name the arguments that it needs: event, registration"
    ):
        check(plugin(hookgw_filter=lambda **kwargs: True))
    with pytest.raises(ValueError, match=r"hookgw_filter takes \*args"):
        check(plugin(hookgw_filter=lambda *args: True))


@pytest.mark.parametrize("mark", [hookimpl(wrapper=True), hookimpl(hookwrapper=True)])
def test_wrappers_are_refused(mark: Callable[..., Any]) -> None:
    def around(event: Any) -> Any:
        yield

    subject = SimpleNamespace(hookgw_filter=mark(around))
    with pytest.raises(ValueError, match="hookgw_filter is marked as a wrapper; hookgw does not support"):
        check(subject)


def test_functions_that_yield_are_refused() -> None:
    def plain(event: Any) -> Any:
        yield event

    async def background(gateway: Any) -> Any:
        yield gateway

    for hook, function in (("hookgw_filter", plain), ("hookgw_run", background)):
        with pytest.raises(ValueError, match=f"{hook} has a yield, so a call of it would do nothing"):
            check(plugin(**{hook: function}))


@pytest.mark.parametrize("hook", sorted(PLAIN_HOOKS))
def test_an_async_function_for_a_plain_hook_is_refused(hook: str) -> None:
    async def implementation() -> None: ...

    with pytest.raises(ValueError, match=f"{hook} must be a plain function: write def, not async def"):
        check(plugin(**{hook: implementation}))
