"""Python imports this at its start: the machine's clock is wrong by ``WRONG_BY`` seconds.

With ``WRONG_BY_FILE``, by the seconds in that file, which may change.
"""

import os
import sys
import time

_right, _right_ns, _steady = time.time, time.time_ns, time.monotonic
_file = os.environ.get("WRONG_BY_FILE")
_by, _read_at = float(os.environ.get("WRONG_BY", "0")), 0.0


def _wrong_by() -> float:
    global _by, _read_at
    if _file is not None and _steady() > _read_at + 0.1:
        _read_at = _steady()
        with open(_file, encoding="ascii") as found:  # noqa: PTH123 -- nothing more is imported so early
            _by = float(found.read() or 0)
    return _by


time.time = lambda: _right() + _wrong_by()
time.time_ns = lambda: _right_ns() + int(_wrong_by() * 1e9)
print("wrong clock", file=sys.stderr)
