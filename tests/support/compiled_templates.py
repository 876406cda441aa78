"""Templates that are compiled once for all apps of a test run; each app would compile its own."""

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class KeptTemplates(BytecodeCache):
    """Keeps them in memory, by their text: jinja2 compares its checksum."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if (kept := self._kept.get((bucket.key, bucket.checksum))) is not None:
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key, bucket.checksum] = bucket.bytecode_to_string()
