"""The store as the rest of hookgw sees it: narrow Protocols. An engine is written from this folder.

One conformance suite (``tests/store/conformance``) runs against every engine.

Rules for every engine
----------------------

*Durability.* When a write returns, it is on disk. A write that raises has changed nothing.

*Order.* Writes take effect in the order in which they are called. Reads see every commit whose waiters have
been woken.

*Cancellation.* A write whose waiter is cancelled is done all the same.

*Errors.* Every method raises :class:`~hookgw.kernel.errors.StorageUnavailable` while the storage refuses; the
error names the file or server and the reason. Writes are refused at once until the engine finds that storage
works again. Settlements are kept meanwhile. No error of a database driver leaves the engine.

*Data, not code.* No argument is a function that would run inside a transaction.

*Opaque places.* A :data:`~hookgw.records.deliveries.Position` and a cursor mean something to their engine
alone. Positions of one lane can be compared; a later position is behind an earlier one. Cursors are strings.

*Several processes.* Where other processes may use the same storage, the listener also hears of what these
append. :mod:`hookgw.store.fleet` has the rest: changed records, shards, and their epochs.
"""
