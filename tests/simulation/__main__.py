"""Runs seeds: ``python -m tests.simulation --runs 2000``, or one of them with its trace."""

import os
import signal
import sys

if os.environ.get("PYTHONHASHSEED") != "0":  # sets of texts have another order in each process otherwise
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])

from tests.simulation.command import main

signal.signal(signal.SIGTERM, signal.default_int_handler)  # a summary, as after Ctrl-C
sys.exit(main(sys.argv[1:]))
