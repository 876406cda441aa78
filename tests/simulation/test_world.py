"""The world of a run: what it notes of the gateway."""

from tests.simulation.command import run_seed


def test_figures_at_rest_wait_for_requests_whose_clients_have_left() -> None:
    """Seed 96374: an event of such a request was counted as pending, and was not in the file yet."""
    assert run_seed(96374).violations == []


def test_commits_run_in_the_event_loops_thread() -> None:
    assert sum(run_seed(seed).history.inline_commits for seed in range(1, 11)) > 0


def test_emits_take_the_shortest_way() -> None:
    """If none does, no run can say anything about it."""
    assert sum(run_seed(seed).history.short_emits for seed in range(1, 11)) > 0
