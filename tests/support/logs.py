"""The log of the process, which commands set up anew."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def log_kept() -> Iterator[None]:
    """Restore handlers and the level of every logger after the block: other tests read what libraries log."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    levels = {logger: logger.level for logger in _loggers()}
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:] = handlers
        for logger in _loggers():
            logger.setLevel(levels.get(logger, logging.NOTSET))
        structlog.reset_defaults()


def _loggers() -> list[logging.Logger]:
    root = logging.getLogger()
    return [root, *(one for one in root.manager.loggerDict.values() if isinstance(one, logging.Logger))]
