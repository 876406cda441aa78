"""Appending: events and their first deliveries go into the outbox. The caller owns the transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hookgw.store.commits.jobs import AppendedEvent
from hookgw.store.figure_news import ACCEPTED, WANTED, Entry
from hookgw.store.records import micros
from hookgw.store.sqlite.bulk import Bulk, numbers_of
from hookgw.store.sqlite.name_ids import of_instance
from hookgw.store.sqlite.transaction import Transaction

# The unique index finds duplicates in the same statement, so no read is needed before the write.
_ADD_EVENTS = Bulk(
    """INSERT INTO events (seq, instance, id, kind, time, accepted_at, data, sender, server_url, heard)
    SELECT * FROM""",
    10,
    "WHERE column1 <> 0 ON CONFLICT (id, instance) DO NOTHING",
)
_ADD_DELIVERIES = Bulk(
    """INSERT INTO deliveries (seq, event, instance, kind, registration, lane, accepted_at, size,
    position, queued_at, state, attempts, failures, next_at)
    SELECT *, column1, column7, 'pending', 0, 0, 0 FROM""",
    8,
    "WHERE column1 <> 0",
)
_STORED_EVENTS = "SELECT json_group_array(seq) FROM events WHERE seq BETWEEN ? AND ?"


def append(
    transaction: Transaction, news: Sequence[AppendedEvent], *, keep_unwanted: bool = True
) -> set[int]:
    """Add events and their deliveries, except duplicates; return the numbers of the added events.

    Without ``keep_unwanted``, the row of an event without a delivery only detects duplicates.
    """
    if not news:
        return set()
    connection = transaction.connection
    instances = {name: of_instance(name) for name in {new.event.instance for new in news}}
    wanted = {*instances.values(), *[new.event.kind for new in news]}
    for new in news:
        for delivery in new.deliveries:
            wanted.add(delivery.registration)
            wanted.add(delivery.lane)
    ids = transaction.names.ids(wanted)
    events, deliveries = [], []
    heard: list[tuple[int, int]] = []
    for new in news:
        event, data = new.event, new.event.data_json
        instance, kind, at = ids[instances[event.instance]], ids[event.kind], micros(new.accepted_at)
        heard.append((ids[new.deliveries[0].registration] if new.deliveries else 0, instance))
        # The size is stored with the delivery, so that bytes are counted without reading payloads.
        for one in new.deliveries:
            ours = ids[one.registration], ids[one.lane]
            deliveries.append((one.seq, new.seq, instance, kind, *ours, at, len(data)))
        stored = data if keep_unwanted or new.deliveries else b""
        begin = new.seq, instance, event.id, kind, micros(event.time), at
        events.append((*begin, stored, event.sender, event.server_url, len(new.deliveries)))
    added = {new.seq for new in news}
    # Duplicates are rare. The Trio thread gave the numbers of a batch in the order of the calls, so they are
    # consecutive, and one range tells which of its events are stored.
    if _ADD_EVENTS.run(connection, events) < len(news):
        stored = connection.execute(_STORED_EVENTS, (news[0].seq, news[-1].seq)).fetchone()[0]
        added.intersection_update(numbers_of(stored))
        heard = [pair for pair, row in zip(heard, events, strict=True) if row[0] in added]
        events = [row for row in events if row[0] in added]
        deliveries = [row for row in deliveries if row[1] in added]
    transaction.appended += events
    if events:
        first = Counter(heard)
        entries: list[Entry] = [(ACCEPTED, *pair, count, -1, -1) for pair, count in first.items()]
        if len(deliveries) > len(events):
            others = Counter((row[4], row[2]) for row in deliveries) - first
            entries += [(WANTED, *pair, count, -1, -1) for pair, count in others.items()]
        transaction.count_entries(news[-1].accepted_at, entries)
    _ADD_DELIVERIES.run(connection, deliveries)
    unwanted = sum([len(row[6]) for row in events if not row[9]])
    transaction.count_appended(len(events), len(deliveries), unwanted)
    return added
