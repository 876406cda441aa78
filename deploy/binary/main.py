"""What the single binary runs: the ``hookgw`` command."""

from __future__ import annotations

from hookgw.__main__ import main

main(prog_name="hookgw")
