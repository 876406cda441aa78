from tests.simulation.history import Resumed
from tests.simulation.invariants import state
from tests.simulation.invariants.building import accepted, changed, final, killed, rules, troubles


def resumed(following: int) -> Resumed:
    return Resumed(at=5, life=2, following=following)


def test_a_state_that_is_behind_its_events_is_found() -> None:
    history = (rules(), accepted(1, "n1", "n2", instance="phone"), killed(2))
    assert troubles(state.check, *history, resumed(3)) == []
    assert troubles(state.check, *history, resumed(2)) == ["the connector begins with n2, and n2 is stored"]


def test_a_state_that_is_ahead_of_its_events_is_found() -> None:
    before, after = accepted(1, "n1", instance="phone"), accepted(9, "n3", instance="phone")
    history = (rules(), changed(0), before, killed(2), resumed(3), after, resumed(4))
    stored = [("n1", "delivered"), ("n3", "delivered")]
    assert troubles(state.check, *history, final(("n2", "delivered"), *stored)) == []
    found = troubles(state.check, *history, final(*stored))
    assert found == ["the state says that n2 is stored, and it is nowhere"]


def test_an_event_that_a_webhook_may_have_been_disabled_before_is_nowhere() -> None:
    before, unwanted = accepted(1, "n1", instance="phone"), accepted(3, "n3", instance="phone", wanted=())
    after = accepted(9, "n4", instance="phone")
    history = (rules(), changed(0), before, unwanted, killed(4), resumed(4), after, resumed(5))
    assert troubles(state.check, *history, final(("n1", "delivered"), ("n4", "delivered"))) == []
