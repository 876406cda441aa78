"""Bodies of emits, read without a pause."""

from typing import Any

from tests.public.events import Batch, EventReader
from tests.public.kernel import finish
from tests.public.records import Catalog


def parse_events(body: bytes, instance: str, catalog: Catalog, *, lines: bool = False, **more: Any) -> Batch:
    """Read the events; ``more`` is of :class:`EventReader`."""
    return finish(EventReader(instance, catalog, **more).read(body, lines=lines))
