"""``python -m tests.simulation.power``; see :mod:`tests.simulation.power.command`."""

import sys

from tests.simulation.power.command import main

# The processes that it starts import this module, too.
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
