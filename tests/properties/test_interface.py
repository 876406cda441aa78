"""Any sequence of calls, compared with a small model: responses, lists, and deliveries.

``HOOKGW_EXAMPLES`` (60) divided by six says how many rows are tried; each has at most 30 calls.
"""

import itertools
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hookgw.testing import Answer, Received, answer
from tests.properties.model import Delivery, Instance, Mode, Model, Registration
from tests.properties.test_same_json import EXAMPLES
from tests.support.live import LINES, Live, Reply, running

NAMES = st.sampled_from(["shop", "shop", "shop", "bar"])
DOOMED = st.sampled_from(["bar", "bar", "bar", "bar", "shop"])
"""The instance that is often deleted, so that the other one lives long."""
WHICH = st.integers(0, 39)
"""Picks an existing object; see ``_some_instance``."""
LABELS = st.sampled_from(["default", "default", "crm"])
KINDS = ("CALL", "MESSAGES_UPSERT")
SPELLED = {"CALL": ("CALL", "call"), "MESSAGES_UPSERT": ("MESSAGES_UPSERT", "messages.upsert")}
STATUS = {Mode.UP: 200, Mode.DOWN: 503, Mode.FAILING: 500, Mode.REJECTING: 400, Mode.GONE: 410}
EVENTS = st.lists(
    st.tuples(st.integers(0, 20).map("e{}".format), st.sampled_from(KINDS)), min_size=1, max_size=4
)
SETTINGS = {
    "auth": {"global_key": "test-key", "failed_attempts": 0},
    "delivery": {"schedule": ["5s", "5s"], "unreachable_max_wait": "4s", "lane_buffer": 2},
}
PHASES = [phase for phase in Phase if phase is not Phase.shrink or EXAMPLES > 60]
"""Shrinking a failing sequence takes minutes, so it happens only in a long search."""
A_WAIT = 6
"""Seconds after which every waiting lane tries again, with these settings."""

Dialect = Callable[[str, bool, list[str], dict[str, str]], dict[str, Any]]
DIALECTS: list[Dialect] = [
    lambda url, on, kinds, headers: {"url": url, "enabled": on, "events": kinds, "headers": headers},
    lambda url, on, kinds, headers: {
        "webhook": {"url": url, "enabled": on, "events": kinds, "headers": headers, "byEvents": False}
    },
    lambda url, on, kinds, headers: {
        "webhook": {"url": url, "enabled": on},
        "events": kinds,
        "headers": headers,
        "webhook_by_events": False,
    },
    lambda url, on, kinds, headers: {"webhook": url, "enabled": on, "events": kinds, "headers": headers},
]


class Interface(RuleBasedStateMachine):
    """A gateway, two receivers, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.live: Live = self.stack.enter_context(running(folder, receivers=2, settings=SETTINGS))
        self.urls = [receiver.url for receiver in self.live.receivers]
        self.model = Model(self.urls)
        self.arrived: dict[str, list[tuple[Received, bool]]] = defaultdict(list)
        for receiver in self.live.receivers:
            receiver.default = self._answer_at(receiver.url)

    def teardown(self) -> None:
        self.stack.close()

    def _answer_at(self, url: str) -> Callable[[Received], Answer]:
        def choose(request: Received) -> Answer:
            mode = self.model.modes[url]
            self.arrived[url].append((request, mode is Mode.UP))
            return answer(STATUS[mode])

        return choose

    # Instances

    @initialize()
    def begin(self) -> None:
        self.create("shop")
        for number, label in enumerate(["default", "crm"]):
            self.set("shop", label, number, on=True, kinds=[], dialect=DIALECTS[number], spelling=0)

    @rule(name=DOOMED)
    def create(self, name: str) -> None:
        reply = self.live.call("POST", "/instance/create", {"instanceName": name})
        if name in self.model.instances:
            assert reply.status == 403
            return
        assert reply.status == 201
        self.model.instances[name] = Instance(name, reply.json["hash"])

    @rule(name=DOOMED)
    def delete(self, name: str) -> None:
        reply = self.live.call("DELETE", f"/instance/delete/{name}")
        gone = self.model.instances.pop(name, None)
        assert reply.status == (404 if gone is None else 200)
        if gone is not None:
            assert self.live.call("GET", f"/webhook/find/{name}", key=gone.key).status == 401

    # Registrations

    @rule(
        name=NAMES,
        label=LABELS,
        url=st.integers(0, 1),
        on=st.booleans(),
        kinds=st.lists(st.sampled_from(KINDS), max_size=2, unique=True),
        dialect=st.sampled_from(DIALECTS),
        spelling=st.integers(0, 1),
    )
    def set(
        self, name: str, label: str, url: int, on: bool, kinds: list[str], dialect: Dialect, spelling: int
    ) -> None:
        """With the global key, ``set`` also creates the instance, then without a key."""
        spelled = [SPELLED[kind][spelling] for kind in kinds]
        body = dialect(self.urls[url], on, spelled, {"x-registration": f"{name}/{label}"})
        reply = self.live.call("POST", f"/webhook/set/{name}/{label}", body)
        assert reply.status == 201, reply.body
        instance = self.model.instances.setdefault(name, Instance(name, ""))
        stored = instance.registrations.get(label)
        if stored is None:
            stored = instance.registrations[label] = Registration(reply.json["id"], name, label, "")
            stored.secret = self._secret(stored)
        stored.url, stored.enabled, stored.kinds = self.urls[url], on, tuple(kinds)
        if not on:
            self.model.park(stored)
        self._wait()

    @rule(
        which=WHICH,
        url=st.none() | st.integers(0, 1),
        on=st.none() | st.booleans(),
        kinds=st.none() | st.lists(st.sampled_from(KINDS), max_size=2, unique=True),
        is_nested=st.booleans(),
    )
    def change(
        self, which: int, url: int | None, on: bool | None, kinds: list[str] | None, is_nested: bool
    ) -> None:
        name, label = self._some_registration(which)
        body = {"url": None if url is None else self.urls[url], "enabled": on, "events": kinds}
        given = {field: value for field, value in body.items() if value is not None}
        path = f"/webhook/set/{name}/{label}"
        reply = self.live.call("PATCH", path, {"webhook": given} if is_nested else given)
        stored = self._stored(name, label)
        assert reply.status == (404 if stored is None else 200), reply.body
        if stored is None:
            return
        stored.url = self.urls[url] if url is not None else stored.url
        stored.enabled = on if on is not None else stored.enabled
        stored.kinds = tuple(kinds) if kinds is not None else stored.kinds
        if not stored.enabled:
            self.model.park(stored)
        self._wait()

    @rule(which=WHICH)
    def delete_webhook(self, which: int) -> None:
        name, label = self._some_registration(which)
        reply = self.live.call("DELETE", f"/webhook/delete/{name}/{label}")
        instance = self.model.instances.get(name)
        stored = instance.registrations.pop(label, None) if instance else None
        assert reply.status == (404 if stored is None else 200)
        if stored is not None:
            self.model.park(stored)

    @rule(which=WHICH, resumes=st.booleans())
    def rotate_secret_or_resume(self, which: int, resumes: bool) -> None:
        name, label = self._some_registration(which)
        if resumes:
            reply = self.live.call("POST", f"/webhook/resume/{name}/{label}")
            stored = self._stored(name, label)
            assert reply.status == (404 if stored is None else 200 if stored.enabled else 409)
            return
        reply = self.live.call("POST", f"/webhook/rotateSecret/{name}/{label}", {"grace": "0"})
        stored = self._stored(name, label)
        assert reply.status == (404 if stored is None else 200)
        if stored is not None:
            assert reply.json["secret"] != stored.secret
            stored.secret = self._secret(stored)

    # Events

    @rule(which=WHICH, event=EVENTS.map(lambda events: events[0]))
    def emit_one(self, which: int, event: tuple[str, str]) -> None:
        self._accept(self._some_instance(which), [event], "single")

    @rule(which=WHICH, events=EVENTS)
    def emit_list(self, which: int, events: list[tuple[str, str]]) -> None:
        self._accept(self._some_instance(which), events, "array")

    @rule(which=WHICH, events=EVENTS)
    def emit_lines(self, which: int, events: list[tuple[str, str]]) -> None:
        self._accept(self._some_instance(which), events, "lines")

    def _accept(self, name: str, events: list[tuple[str, str]], dialect: str) -> None:
        reply = self._emit(name, events, dialect)
        instance = self.model.instances.get(name)
        if instance is None:
            assert reply.status == 404
            return
        fresh = {event for event, _ in events} - instance.events
        assert reply.status == 202
        assert reply.json["ids"] == [event for event, _ in events]
        assert (reply.json["accepted"], reply.json["duplicates"]) == (len(fresh), len(events) - len(fresh))
        made = self.model.emit(instance, events)
        self._bind(instance, made)
        self.model.queue(sorted(made, key=lambda delivery: delivery.number))

    def _emit(self, name: str, events: list[tuple[str, str]], dialect: str) -> Reply:
        bodies = [{"id": event, "event": kind, "data": {"of": event}} for event, kind in events]
        path = f"/event/emit/{name}"
        if dialect == "lines":
            content = b"\n".join(map(msgspec.json.encode, bodies))
            return self.live.call("POST", path, content=content, content_type=LINES)
        return self.live.call("POST", path, bodies if dialect == "array" else bodies[0])

    def _bind(self, instance: Instance, made: list[Delivery]) -> None:
        """Copy the ids of new deliveries from the gateway."""
        ids = {(one["eventId"], one["registrationId"]): one["id"] for one in self._list(instance.name)}
        for delivery in made:
            delivery.id = ids[delivery.event, delivery.registration.id]

    @precondition(lambda self: self._deliveries())
    @rule(which=WHICH)
    def resend(self, which: int) -> None:
        deliveries = self._deliveries()
        delivery = deliveries[which % len(deliveries)]
        name = delivery.registration.instance
        reply = self.live.call("POST", f"/delivery/resend/{name}/{delivery.id}")
        assert reply.status == (202 if self.model.can_resend(delivery) else 409), reply.body
        if reply.status == 202:
            self.model.queue([delivery])

    @precondition(lambda self: self._deliveries())
    @rule(which=WHICH, state=st.sampled_from(["dead", "all"]))
    def replay(self, which: int, state: str) -> None:
        name = self._some_instance(which)
        reply = self.live.call("POST", f"/delivery/replay/{name}", {"since": "1d", "state": state})
        instance = self.model.instances.get(name)
        if instance is None:
            assert reply.status == 404
            return
        again = self.model.again(instance, dead_only=state == "dead")
        assert (reply.status, reply.json) == (202, {"replayed": len(again)})
        self.model.queue(again)

    # What happens to them

    @rule(url=st.integers(0, 1), mode=st.sampled_from([Mode.UP, Mode.DOWN, *Mode]))
    def receiver(self, url: int, mode: Mode) -> None:
        self.model.modes[self.urls[url]] = mode
        self._wait()

    @rule()
    def restart(self) -> None:
        self.live.restart()

    def _wait(self) -> None:
        """Let waiting lanes try again."""
        self.live.advance(A_WAIT)

    # What there is to pick from

    def _some_instance(self, which: int) -> str:
        """Return the name of an instance that usually exists."""
        names = sorted(self.model.instances)
        return names[which % len(names)] if names and which else "nobody"

    def _some_registration(self, which: int) -> tuple[str, str]:
        """Return the instance and label of a registration that usually exists."""
        known = [
            (r.instance, r.label) for i in self.model.instances.values() for r in i.registrations.values()
        ]
        return known[which % len(known)] if known and which else ("shop", "nobody")

    def _deliveries(self) -> list[Delivery]:
        return [d for instance in self.model.instances.values() for d in instance.deliveries]

    # What must hold

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        self.live.settled()
        self._check_arrivals()
        self._check_lists()
        self._check_keys()

    def _check_arrivals(self) -> None:
        for _ in range(200):
            if not self._busy():
                break
            self._wait()
        assert not self._busy()
        self.model.settle()
        for url, arrived in self.arrived.items():
            self._check_signatures(arrived)
            by_tag: dict[str, list[tuple[Received, bool]]] = defaultdict(list)
            for arrival in arrived:  # registrations with the same URL have an order of their own each
                by_tag[_tag(arrival)].append(arrival)
            for tag, own in by_tag.items():
                runs = [key for key, _ in itertools.groupby(request.event_id for request, _ in own)]
                assert len(runs) == len(set(runs)), f"{url}, {tag}: overtaken: {runs}"
            delivered = {tag: [r.event_id for r, good in own if good] for tag, own in by_tag.items()}
            assert {tag: ids for tag, ids in delivered.items() if ids} == self.model.delivered[url]
            arrived.clear()
            self.model.delivered[url].clear()

    def _busy(self) -> bool:
        """Return whether deliveries are pending for a receiver that responds."""
        lanes = self.live.call("GET", "/lane/list").json
        return any(lane["backlog"] and self.model.modes.get(lane["url"]) is not Mode.DOWN for lane in lanes)

    def _check_signatures(self, arrived: list[tuple[Received, bool]]) -> None:
        for request, _ in arrived:
            name, _, label = _tag((request, True)).partition("/")
            stored = self._stored(name, label)
            if stored is not None:
                now = float(request.header("webhook-timestamp") or "")
                self.live.receivers[0].verify(request, stored.secret, now=now)
            assert request.json["data"] == {"of": request.event_id}

    def _check_lists(self) -> None:
        found = self.live.call("GET", "/instance/fetchInstances").json
        assert {one["name"] for one in found} == self.model.instances.keys()
        for instance in self.model.instances.values():
            self._check_registrations(instance)
            listed = self._list(instance.name)
            seen = {one["id"]: (one["eventId"], one["label"], one["state"]) for one in listed}
            stored = {r.id for r in instance.registrations.values()}
            assert seen == {
                d.id: (d.event, d.registration.label if d.registration.id in stored else None, d.state)
                for d in instance.deliveries
            }
            numbers = [int(one["id"].removeprefix("dlv_")) for one in listed]
            assert numbers == sorted(numbers, reverse=True)

    def _check_registrations(self, instance: Instance) -> None:
        page = self.live.call("GET", f"/webhook/list/{instance.name}").json
        assert [one["label"] for one in page["registrations"]] == sorted(instance.registrations)
        for label in ("default", "crm"):
            found = self.live.call("GET", f"/webhook/find/{instance.name}/{label}").json
            stored = instance.registrations.get(label)
            if stored is None:
                assert found is None
                continue
            assert (found["id"], found["url"], found["enabled"]) == (stored.id, stored.url, stored.enabled)
            assert found["state"] == ("active" if stored.enabled else "disabled")
            assert set(found["events"]) >= set(stored.kinds or KINDS)
            assert not stored.kinds or set(found["events"]) == set(stored.kinds)

    def _check_keys(self) -> None:
        """An instance key accesses only its instance."""
        for instance in self.model.instances.values():
            if instance.key:
                mine = self.live.call("GET", "/instance/fetchInstances", key=instance.key).json
                assert [one["name"] for one in mine] == [instance.name]
                other = "bar" if instance.name == "shop" else "shop"
                reply = self.live.call("GET", f"/delivery/list/{other}", key=instance.key)
                assert reply.status == 403

    def _list(self, name: str) -> list[dict[str, Any]]:
        deliveries: list[dict[str, Any]] = self.live.call("GET", f"/delivery/list/{name}?limit=1000").json[
            "deliveries"
        ]
        return deliveries

    def _stored(self, name: str, label: str) -> Registration | None:
        instance = self.model.instances.get(name)
        return instance.registrations.get(label) if instance else None

    def _secret(self, stored: Registration) -> str:
        reply = self.live.call("GET", f"/webhook/secret/{stored.instance}/{stored.label}")
        secret: str = reply.json["secret"]
        return secret


def _tag(arrival: tuple[Received, bool]) -> str:
    """Return the registration's tag from a request."""
    return arrival[0].header("x-registration") or ""


def test_any_sequence_of_calls_matches_the_model() -> None:
    run_state_machine_as_test(
        Interface,
        settings=settings(
            max_examples=max(1, EXAMPLES // 6),
            phases=PHASES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
