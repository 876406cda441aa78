"""Run the ``hookgw`` command as ``python -m hookgw``."""

from __future__ import annotations

from hookgw.cli.group import main

if __name__ == "__main__":
    main(prog_name="hookgw")
