"""Run the ``hookgw`` command as ``python -m hookgw``."""

from __future__ import annotations

from hookgw.command.group import main

if __name__ == "__main__":
    main(prog_name="hookgw")
