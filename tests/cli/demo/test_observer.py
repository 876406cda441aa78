"""How the demo observes the gateway."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import Attempt, Delivery, Event, Outcome, Registration
from tests.public.demo import Ledger, Observer


def event_of(event_id: str = "a", instance: str = "demo", kind: str = "CALL") -> Event:
    return Event(id=event_id, kind=kind, instance=instance, data_json=b"{}", time=0)


def delivery_of(event: Event) -> Delivery:
    return Delivery(
        seq=1, event=event, registration="reg_1", lane="x", accepted_at=0, position=1, queued_at=0.0
    )


def registration_of(label: str = "crm", instance: str = "demo") -> Registration:
    return Registration(id="reg_1", instance=instance, label=label, url="https://x")


async def test_each_event_of_the_instance_is_entered_in_every_ledger() -> None:
    ledgers = {"crm": Ledger(), "n8n": Ledger()}
    observer = Observer("demo", ledgers)
    observer.hookgw_event_accepted(event_of())
    observer.hookgw_event_accepted(event_of(instance="another"))
    assert observer.accepted == 1
    assert [ledger.accepted for ledger in ledgers.values()] == [1, 1]


async def test_a_message_of_the_user_is_noticed() -> None:
    observer = Observer("demo", {})
    observer.hookgw_event_accepted(event_of(kind="SEND_MESSAGE", instance="another"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(observer.wait_sent, 1)
        await wait_all_tasks_blocked()
        assert observer.sent == 0
        observer.hookgw_event_accepted(event_of(kind="SEND_MESSAGE"))


async def test_failed_attempts_are_counted_per_receiver() -> None:
    ledger = Ledger()
    observer = Observer("demo", {"crm": ledger})
    for outcome in Outcome:
        attempt = Attempt(number=1, at=0, duration=0, outcome=outcome)
        observer.hookgw_attempt(attempt, registration_of())
        observer.hookgw_attempt(attempt, registration_of(label="mine"))
        observer.hookgw_attempt(attempt, registration_of(instance="another"))
    assert ledger.failed_attempts == len(Outcome) - 1


@pytest.mark.parametrize("other", [registration_of(label="mine"), registration_of(instance="another")])
async def test_deliveries_to_other_registrations_are_ignored(other: Registration) -> None:
    ledger = Ledger()
    Observer("demo", {"crm": ledger}).hookgw_delivered(delivery_of(event_of()), other)
    assert ledger.flawless


async def test_waiting_for_acceptance_and_for_completion() -> None:
    ledger = Ledger()
    observer = Observer("demo", {"crm": ledger})
    reached: list[str] = []

    async def watch() -> None:
        await observer.wait_accepted(1)
        reached.append("accepted")
        await observer.wait_complete()
        reached.append("complete")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await wait_all_tasks_blocked()
        assert reached == []
        observer.hookgw_event_accepted(event_of())
        ledger.arrive("a")
        await wait_all_tasks_blocked()
        assert reached == ["accepted"]
        observer.hookgw_delivered(delivery_of(event_of()), registration_of())
    assert reached == ["accepted", "complete"]
