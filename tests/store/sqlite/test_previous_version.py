"""The data files of the previous version are what their descriptions say."""

from pathlib import Path

import pytest

from tests.store.sqlite.previous_version import NAMES, SHARED_URL, Name, load_truth, unpack
from tests.store.sqlite.support import peek

PENDING = """SELECT d.seq, d.position, l.name, substr(i.name, 2), e.id, k.name, d.attempts, d.failures,
        d.next_at / 1e6, b.seq IS NOT NULL
    FROM deliveries d
    JOIN names r ON r.number = d.registration
    JOIN names l ON l.number = d.lane
    JOIN names i ON i.number = d.instance
    JOIN names k ON k.number = d.kind
    JOIN events e ON e.seq = d.event
    LEFT JOIN bodies b ON b.seq = d.seq
    WHERE d.state = 'pending' AND r.name = ? ORDER BY d.position"""


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_whole_and_has_the_rows_of_its_description(tmp_path: Path, name: Name) -> None:
    path, truth = unpack(name, tmp_path), load_truth(name)
    assert peek(path, "PRAGMA integrity_check") == [("ok",)]
    assert peek(path, "PRAGMA user_version") == [(truth.schema,)]
    assert {
        table: peek(path, f"SELECT count(*) FROM {table}")[0][0] for table in truth.counts
    } == truth.counts
    assert set(peek(path, "SELECT state, count(*) FROM deliveries GROUP BY state")) == set(
        truth.states.items()
    )
    assert set(peek(path, "SELECT name, seq FROM sqlite_sequence")) == set(truth.last_numbers.items())
    for registration, deliveries in truth.pending.items():
        assert peek(path, PENDING, (registration,)) == [
            (
                d.seq,
                d.position,
                d.lane,
                d.instance,
                d.event,
                d.kind,
                d.attempts,
                d.failures,
                d.next_at,
                d.body,
            )
            for d in deliveries
        ]
    assert sum(map(len, truth.pending.values())) == truth.states["pending"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_what_a_migration_must_handle(name: Name) -> None:
    truth = load_truth(name)
    shared = [truth.find("shop"), truth.find("desk")]
    first, second = (truth.order(key)[""] for key in shared)
    assert [truth.registrations[key].url for key in shared] == [SHARED_URL] * 2
    assert first[0] < second[0] < first[-1], "the deliveries of both are interleaved"
    mover = truth.find("shop" if name == "plain" else "desk", "moving")
    assert any(lane.startswith(f"{mover}:-1") for lane in truth.order(mover, "lane"))
    assert {"global_archive", "operations"} <= truth.pending.keys()
    everything = [delivery for deliveries in truth.pending.values() for delivery in deliveries]
    assert any(delivery.attempts and delivery.body and delivery.next_at > truth.at for delivery in everything)
    assert truth.states.keys() == {"pending", "delivered", "dead"}
    if name == "plain":
        assert {r.ordering for r in truth.registrations.values()} == {"url", "chat", "none"}
        assert any(delivery.position != delivery.seq for delivery in everything), "some were sent again"
        deleted = truth.pending.keys() - truth.registrations.keys() - {"operations"}
        assert [key for key in deleted if key.startswith("reg_")], "one was on the wire as it was deleted"


def test_a_sealed_file_shows_no_registration(tmp_path: Path) -> None:
    path = unpack("encrypted", tmp_path)
    assert peek(path, "SELECT count(*) FROM shelves WHERE CAST(value AS TEXT) NOT LIKE '\"sealed:v1:%'") == [
        (0,)
    ]
