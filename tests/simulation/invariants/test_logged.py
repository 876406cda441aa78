from tests.simulation.history import Logged, Record, Removed, Unanswered
from tests.simulation.invariants import logged
from tests.simulation.invariants.building import accepted, erased, final, rules, troubles


def found(*events: str, before: tuple[Record, ...] = (), complete: bool = True) -> list[str]:
    """Return what the check says of a log, after two calls that brought e1, and then e2 and e3."""
    log = Logged(at=99, life=1, instance="shop", events=events)
    calls = accepted(1, "e1"), accepted(3, "e2", "e3", began=2.5)
    return troubles(logged.check, rules(), *calls, *before, log, final(complete=complete))


def test_a_whole_log_is_in_order() -> None:
    assert found("e1", "e2", "e3") == []
    assert found("e1", "of-an-unanswered-call", "e2", "e3") == []


def test_a_missing_event() -> None:
    assert found("e1", "e3") == ["the log of shop lacks e2"]
    assert found("e1", "e3", complete=False) == []
    assert found("e1", before=(erased(5),)) == []


def test_an_event_that_is_there_twice() -> None:
    assert found("e1", "e2", "e3", "e1")[0] == "the log of shop has e1 2 times"


def test_another_order() -> None:
    assert found("e2", "e3", "e1") == ["the log of shop has e1 behind a later event"]
    assert found("e1", "e3", "e2") == ["the log of shop has e2 behind a later event"]


def test_a_request_of_its_own_that_was_repeated_may_have_been_refused_before() -> None:
    def unanswered(*events: str) -> Unanswered:
        return Unanswered(at=2.7, life=1, events=events)

    assert found("e1", "e3", "e2", before=(unanswered("e2"), unanswered("e3"))) == []
    batch = found("e1", "e3", "e2", before=(unanswered("e2", "e3"),))
    assert batch == ["the log of shop has e2 behind a later event"]
    assert found("e2", "e1", "e3", before=(unanswered("e1"),)) == [
        "the log of shop has e1 behind a later event"
    ]


def test_calls_at_the_same_time_have_any_order() -> None:
    assert found("e4", "e1", "e2", "e5", "e3", before=(accepted(9, "e4", "e5", began=0.5),)) == []


def test_a_deleted_instance_takes_its_log_along() -> None:
    removed = Removed(at=6, life=1, began=5, instance="shop")
    assert found(before=(removed,)) == []
