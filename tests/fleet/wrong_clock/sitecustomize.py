"""Python imports this at its start: the machine's clock is wrong by ``WRONG_BY`` seconds."""

import os
import sys
import time

BY = float(os.environ["WRONG_BY"])
_right, _right_ns = time.time, time.time_ns
time.time = lambda: _right() + BY
time.time_ns = lambda: _right_ns() + int(BY * 1e9)
print("wrong clock", file=sys.stderr)
