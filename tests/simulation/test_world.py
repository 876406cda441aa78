"""The world of a run: what it notes of the gateway."""

from typing import Any

import pytest

from hookgw import DeliveryState
from tests.public.concurrency import LightTask
from tests.public.records import Settlement
from tests.public.store import GroupCommit
from tests.simulation.api import Api
from tests.simulation.command import run_seed
from tests.support.hub import choice


def test_figures_at_rest_wait_for_requests_whose_clients_have_left() -> None:
    """Seed 96374: an event of such a request was counted as pending, and was not in the file yet."""
    assert run_seed(96374).violations == []


def test_commits_run_in_the_event_loops_thread() -> None:
    assert sum(run_seed(seed).history.inline_commits for seed in range(1, 11)) > 0


def test_emits_take_the_shortest_way() -> None:
    """If none does, no run can say anything about it."""
    assert sum(run_seed(seed).history.short_emits for seed in range(1, 11)) > 0


class Spy:
    """Counts what happens in light steps."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.emits = self.deliveries = self._depth = 0
        step, note, settle = LightTask.step, Api._note_response, GroupCommit.settle_nowait

        def spied_step(light: LightTask) -> None:
            self._depth += 1
            try:
                step(light)
            finally:
                self._depth -= 1

        def spied_note(api: Api, exchange: Any, status: int) -> None:
            self.emits += self._depth > 0 and (exchange.route, status) == ("/event/emit/<instance>", 202)
            note(api, exchange, status)

        def spied_settle(commits: GroupCommit[Any], settlement: Settlement) -> int:
            self.deliveries += self._depth > 0 and settlement.state is DeliveryState.DELIVERED
            return settle(commits, settlement)

        patch.setattr(LightTask, "step", spied_step)
        patch.setattr(Api, "_note_response", spied_note)
        patch.setattr(GroupCommit, "settle_nowait", spied_settle)


@pytest.mark.parametrize("hub", [True, False])
def test_emits_and_deliveries_are_made_in_light_steps(monkeypatch: pytest.MonkeyPatch, *, hub: bool) -> None:
    """Whoever has gone on in the task stays there until the next request, or delivery."""
    spy = Spy(monkeypatch)
    for seed in range(1, 11):
        run_seed(seed, hub=hub)
    assert (spy.emits > 0) is (spy.deliveries > 0) is (hub and choice.is_on)
