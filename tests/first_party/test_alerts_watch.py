"""What is told, and when: the plugin's decisions without a gateway."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest

from hookgw import Problem, ProblemKind


class Clockwork:
    """A state that is brought up to date by hand; ``told`` has what was told, by time.

    ``refusals`` has the channels that took nothing, by time.
    """

    def __init__(self, package: ModuleType, **rule: Any) -> None:
        self.watch, self.texts, options = package.watch, package.texts, package.options
        self.options = options.read_options(
            {
                "channels": {name: {"type": "url", "url": "http://a"} for name in ("a", "b")},
                "rules": [{"to": ["a"], **rule}],
                "zone": "UTC",
            }
        )
        self.state = self.watch.State()
        self.told: list[tuple[float, str, int]] = []
        self.refusals: list[tuple[float, str]] = []

    def look(
        self, now: float, problems: Sequence[Problem] = (), nodes: Sequence[str] = (), *, takes: bool = True
    ) -> None:
        problems = [*problems, *self.watch.lost_nodes(self.state, nodes, now)]
        found = {rule.id: [one for one in problems if rule.concerns(one, {})] for rule in self.options.rules}
        self.watch.advance(self.state, self.options.rules, found, self.options, now)
        for notice in [one for one in self.state.notices.values() if one.due <= now]:
            if takes:
                self.told.append((now, notice.state, notice.count))
                del self.state.notices[notice.id]
                continue
            for name in notice.to:
                assert notice.to[notice.tried] == name
                self.refusals.append((now, name))
                self.watch.failed(self.state, notice, now, "refused")


@pytest.fixture
def clockwork(module_of: Callable[[str], ModuleType]) -> Callable[..., Clockwork]:
    import importlib

    package = module_of("alerts")
    for name in ("watch", "options", "texts"):
        importlib.import_module(f"{package.__name__}.{name}")
    return lambda **rule: Clockwork(package, **rule)


def closed(name: str) -> Problem:
    return Problem(ProblemKind.INSTANCE_CLOSED, "Not connected.", instance=name)


def test_accounts_that_fall_out_together_are_one_message_and_a_later_one_is_another(
    clockwork: Callable[..., Clockwork],
) -> None:
    clock = clockwork(on="instance_closed", **{"for": "0s"})
    clock.look(1000, [closed("a"), closed("b")])
    clock.look(1015, [closed("a"), closed("b"), closed("c")])
    assert clock.told == [(1000, "raised", 2), (1015, "raised", 1)]


def test_each_of_several_has_its_own_end(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="instance_closed", remind="30m", **{"for": "0s"})
    clock.look(0, [closed("a"), closed("b"), closed("c")])
    for now in range(15, 1815, 15):
        clock.look(now, [closed("c")])
    assert clock.told == [(0, "raised", 3), (1800, "still", 1)]
    [alert] = clock.state.alerts.values()
    assert [line.instance for line in alert.lines] == ["c"]
    # What was over is a new problem; the all-clear of the first alert is for all that it told of.
    clock.look(1815, [closed("a"), closed("c")])
    for now in range(1830, 2100, 15):
        clock.look(now)
    assert clock.told[2:] == [(1815, "raised", 1), (1950, "over", 3), (1950, "over", 1)]


def test_a_webhook_that_fails_again_joins_the_alert_of_its_host(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="webhook_failing", remind="30m", **{"for": "0s"})
    both = [
        Problem(ProblemKind.WEBHOOK_FAILING, "503", instance="a", label=label, detail="http://h/")
        for label in ("x", "y")
    ]
    for now in range(0, 3615, 15):
        clock.look(now, both[:1] if 0 < now < 1815 else both)
    assert clock.told == [(0, "raised", 2), (1800, "still", 1), (3600, "still", 2)]


def failing(number: int) -> Problem:
    return Problem(
        ProblemKind.WEBHOOK_FAILING,
        "No answer.",
        instance=f"a{number}",
        label="x",
        detail=f"http://h{number}/",
    )


def test_webhooks_whose_receivers_fetch_are_at_no_host(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="backlog", **{"for": "0s"})
    labels = "crm", "erp"
    clock.look(
        0, [Problem(ProblemKind.BACKLOG, "", instance="a", label=one, detail="pull:") for one in labels]
    )
    [alert] = clock.state.alerts.values()
    assert clock.texts.describe(alert) == "Deliveries to 2 webhooks at several hosts pile up"


def test_a_gateway_without_a_network_is_one_message(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="webhook_failing", **{"for": "0s"})
    everyone = [failing(number) for number in range(200)]
    clock.look(0, everyone[:150])
    clock.look(15, everyone)
    assert clock.told == [(0, "raised", 150)]
    for now in range(30, 300, 15):
        clock.look(now)
    assert clock.told[1:] == [(150, "over", 200)]


def test_receivers_that_fail_one_after_the_other_are_some_messages(
    clockwork: Callable[..., Clockwork],
) -> None:
    clock = clockwork(on="webhook_failing", **{"for": "0s"})
    for number in range(1, 31):
        clock.look(15 * number, [failing(one) for one in range(number)])
    assert [count for _, _, count in clock.told] == [1] * 6
    # Once most are back, one that is left over hides no other.
    for now in range(465, 1200, 15):
        clock.look(now, [failing(29)])
    del clock.told[:]
    clock.look(1200, [failing(29), failing(40)])
    assert clock.told == [(1200, "raised", 1)]


def test_a_short_problem_is_not_told(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="instance_closed", **{"for": "5m"})
    for now in range(0, 285, 15):
        clock.look(now, [closed("a")])
    for now in range(285, 3000, 15):
        clock.look(now)
    assert clock.told == []


def test_a_problem_that_comes_and_goes_is_one_alert(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="instance_closed", **{"for": "1m"})
    for now in range(0, 1200, 15):
        clock.look(now, [closed("a")] if now % 60 else [])
    assert [state for _, state, _ in clock.told] == ["raised"]


def test_nobody_is_told_at_night_and_of_what_is_over_by_morning(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="instance_closed", quiet="22:00-07:00", **{"for": "0s"})
    hour = 3600.0
    clock.look(23 * hour, [closed("a"), closed("b")])
    clock.look(29 * hour, [closed("b")])
    clock.look(30.9 * hour, [closed("b")])
    assert clock.told == []
    clock.look(31.1 * hour, [closed("b")])
    assert [(state, count) for _, state, count in clock.told] == [("raised", 1)]


def test_it_is_told_again_while_it_lasts(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="instance_closed", remind="4h", **{"for": "0s"})
    for now in range(0, 9 * 3600, 900):
        clock.look(now, [closed("a")])
    assert [(at, state) for at, state, _ in clock.told] == [(0, "raised"), (14400, "still"), (28800, "still")]


def test_a_reminder_says_what_is_wrong_now(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="instance_closed", remind="5m", **{"for": "0s"})
    clock.look(0, [closed("a")])
    clock.look(300, [Problem(ProblemKind.INSTANCE_CLOSED, "Logged out.", instance="a")])
    [alert] = clock.state.alerts.values()
    assert [line.why for line in alert.lines] == ["Logged out."]


def test_channels_that_take_nothing_are_tried_after_waits_that_double(
    clockwork: Callable[..., Clockwork],
) -> None:
    clock = clockwork(on="instance_closed", to=["a", "b"], **{"for": "0s"})
    for now in range(0, 2 * 3600, 15):
        clock.look(now, [closed("a")], takes=False)
    at = [0, 60, 180, 420, 900, 1860, 3660, 5460]
    assert clock.refusals == [(now, name) for now in at for name in ("a", "b")]


def test_what_no_channel_takes_for_a_day_is_given_up(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="instance_closed", **{"for": "0s"})
    for now in range(0, 86_400, 900):
        clock.look(now, [closed("a")], takes=False)
    assert clock.state.notices
    clock.look(86_400, [closed("a")], takes=False)
    assert not clock.state.notices


def test_what_a_clock_that_was_ahead_has_stored_holds_nothing_up(clockwork: Callable[..., Clockwork]) -> None:
    """As on a machine whose clock is set once the network is there, and hookgw is started again."""
    ahead = 86_400 * 365
    clock = clockwork(on="instance_closed", remind="1h", **{"for": "0s"})
    clock.look(ahead, [closed("a"), closed("b")])
    clock.look(ahead + 15, [closed("a")])
    clock.look(ahead + 30, [closed("a"), closed("c")], takes=False)
    for now in range(0, 3615, 15):
        clock.look(now, [closed("a")])
    assert clock.told[1:] == [(0, "raised", 1), (135, "over", 1), (3600, "still", 1)]
    clock = clockwork(on="node_lost", **{"for": "0s"})
    clock.look(ahead, nodes=["n", "m"])
    for now in range(0, 100_000, 900):
        clock.look(now, nodes=["n"])
    assert [state for _, state, _ in clock.told] == ["raised", "over"]


def test_what_no_channel_took_is_not_told_once_it_is_over_unless_somebody_may_have_heard(
    clockwork: Callable[..., Clockwork],
) -> None:
    clock = clockwork(on="instance_closed", **{"for": "0s"})
    clock.look(0, [closed("a")], takes=False)
    for now in range(15, 300, 15):
        clock.look(now)
    assert [state for _, state, _ in clock.told] == ["raised", "over"]


def test_the_all_clear_is_the_last_that_a_channel_hears_once_it_takes_messages_again(
    clockwork: Callable[..., Clockwork],
) -> None:
    clock = clockwork(on="instance_closed", **{"for": "0s"})
    clock.look(0, [closed("a")], takes=False)
    for now in range(15, 300, 15):
        clock.look(now, takes=False)
    clock.look(500)
    assert clock.told == [(500, "over", 1)]


def test_a_node_that_is_gone_is_told_and_its_return(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="node_lost", **{"for": "1m"})
    for now in range(1000, 1300, 15):
        clock.look(now, nodes=["a", "b"])
    for now in range(1300, 1600, 15):
        clock.look(now, nodes=["a"])
    for now in range(1600, 1900, 15):
        clock.look(now, nodes=["a", "b"])
    assert [state for _, state, _ in clock.told] == ["raised", "over"]


def test_a_rule_for_some_instances(clockwork: Callable[..., Clockwork]) -> None:
    clock = clockwork(on="instance_closed", instances=["loja*"], **{"for": "0s"})
    clock.look(0, [closed("loja1"), closed("shop")])
    assert clock.told == [(0, "raised", 1)]
