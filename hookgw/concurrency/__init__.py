"""Clocks, tasks, threads and waiting in line, under Trio. Knows no concept of hookgw."""

from typing import TYPE_CHECKING

from hookgw._lazy import public_names

if TYPE_CHECKING:
    from hookgw.concurrency.public import *
else:
    __getattr__ = public_names(__name__)
