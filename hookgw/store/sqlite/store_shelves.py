"""The store's face for the shelves: what instances and registrations there are, and lone values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hookgw.models.instances import Instance
from hookgw.models.registrations import Registration
from hookgw.store.encryption import RecordCipher
from hookgw.store.sqlite.group_commit import GroupCommit
from hookgw.store.sqlite.jobs import FunctionJob
from hookgw.store.sqlite.reader import Reader
from hookgw.store.sqlite.shelves import Shelves
from hookgw.store.sqlite.transaction import Transaction

T = TypeVar("T")


class ShelfAccess:
    """Reads and changes the shelves.

    Error handling: every method raises :class:`~hookgw.models.errors.StorageUnavailable` where the disk
    refuses, and then nothing of the call was kept. What is written is on disk when the method returns.
    """

    def __init__(self, committer: GroupCommit, queries: Reader, sealer: RecordCipher | None) -> None:
        self._committer = committer
        self._queries = queries
        self._sealer = sealer

    def check_open(self) -> None:
        """Return if a write would be taken now: for those who would hold others up for one that is not.

        Raises:
            StorageUnavailable: the disk refused the last one, or the store is closed.
        """
        self._committer.check_open()

    async def write(self, function: Callable[[Transaction], T]) -> T:
        """Run a function inside a group commit.

        Args:
            function: gets the shelves and bulk changes of the outbox. It runs in the writer thread,
                may be run again where the commit has to be repeated, and must be quick, since everybody
                else waits for it. If it raises, what it did is undone, and nothing else is.

        Returns:
            What it returned; what it did is on disk.

        Raises:
            StorageUnavailable: the disk refuses.
            Exception: what the function raised.
        """
        job = FunctionJob(function)
        self._committer.call_nowait(job)
        await job.wait()
        result: T = job.result
        return result

    async def read(self, function: Callable[[Shelves], T]) -> T:
        """Run a function that reads shelves, in a thread, beside the commits.

        Returns:
            What it returned.

        Raises:
            StorageUnavailable: the disk refuses, or a value on a shelf is damaged.
            Exception: what the function raised; writing is refused with ``sqlite3.OperationalError``.
        """
        return await self._queries.run(lambda connection: function(Shelves(connection, self._sealer)))

    async def load_instances(self) -> dict[str, Instance]:
        """All instances, by name. A damaged record is :class:`~hookgw.models.errors.StorageUnavailable`."""
        return await self.read(lambda shelves: shelves.instances.load())

    async def put_instance(self, instance: Instance, first: Registration | None = None) -> None:
        """Keep an instance under its name, and with it the first registration that it has, if any."""

        def put(transaction: Transaction) -> None:
            transaction.instances[instance.name] = instance
            if first is not None:
                transaction.registrations[first.id] = first

        await self.write(put)

    async def remove_instance(self, name: str, *, retired_as: str | None = None) -> None:
        """Remove an instance, if there is one of that name.

        Args:
            name: the instance's name.
            retired_as: keep its events and deliveries under this instead, which no instance may be
                called: a later instance of that name then has no part in them.
        """

        def remove(transaction: Transaction) -> None:
            transaction.instances.pop(name, None)
            if retired_as is not None:
                transaction.retire_instance(name, retired_as)

        await self.write(remove)

    async def load_registrations(self) -> dict[str, Registration]:
        """All registrations, by id. A damaged record is :class:`~hookgw.models.errors.StorageUnavailable`."""
        return await self.read(lambda shelves: shelves.registrations.load())

    async def put_registration(self, registration: Registration, *, moving: Sequence[str] = ()) -> None:
        """Keep a registration under its id.

        Args:
            registration: the new or changed one.
            moving: lanes in which it may have pending deliveries that belong into those it has now: that
                is noted in the same commit, so that also a crash does not leave them there.
        """

        def put(transaction: Transaction) -> None:
            transaction.registrations[registration.id] = registration
            if moving:
                transaction.moves[registration.id] = list(moving)

        await self.write(put)

    async def remove_registration(self, registration_id: str) -> None:
        """Remove a registration, if there is one of that id."""

        def remove(transaction: Transaction) -> None:
            transaction.registrations.pop(registration_id, None)
            transaction.moves.pop(registration_id, None)

        await self.write(remove)

    async def put_lanes(self, key: str, lanes: object, registration_id: str, before: Sequence[str]) -> None:
        """Keep which lanes a registration of the configuration has, and note that others are to be moved.

        Args:
            key: of the value that is kept.
            lanes: that value, which can be written as JSON.
            registration_id: whose lanes they are.
            before: lanes in which it may have pending deliveries; those that are noted already stay so.
        """

        def put(transaction: Transaction) -> None:
            transaction.values[key] = lanes
            noted = transaction.moves.get(registration_id, [])
            if before:
                transaction.moves[registration_id] = list(dict.fromkeys([*noted, *before]))

        await self.write(put)

    async def load_moves(self) -> dict[str, list[str]]:
        """The moves that are not done: the lanes to look through, by registration id."""
        return await self.read(lambda shelves: shelves.moves.load())

    async def forget_move(self, registration_id: str) -> None:
        """There is nothing left to move for a registration."""
        await self.write(lambda transaction: transaction.moves.pop(registration_id, None))

    async def get_value(self, key: str) -> Any:
        """The JSON value of that key; ``None`` if there is none."""
        return await self.read(lambda shelves: shelves.values.get(key))

    async def put_value(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key.

        Raises:
            TypeError: it cannot be written as JSON.
        """

        def put(transaction: Transaction) -> None:
            transaction.values[key] = value

        await self.write(put)
