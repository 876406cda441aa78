"""Reads the arguments of plugins' functions. No I/O."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function, without evaluating its annotations.

    From Python 3.14 on, annotations are evaluated when somebody asks for them. Those of plugins name types
    that are imported for type checkers alone, which is right there without a ``__future__`` import.

    Raises:
        TypeError, ValueError: the function does not tell its arguments.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)
