import logging
import threading

from hookgw.core.recent_log import RecentLog


def test_lines_are_read_while_another_thread_logs() -> None:
    log = RecentLog()
    record = logging.makeLogRecord({"msg": "a line"})

    class Formatter(logging.Formatter):
        """Lets another thread log, as the switch of threads may in each format."""

        def format(self, _: logging.LogRecord) -> str:
            thread = threading.Thread(target=log.emit, args=(record,))
            thread.start()
            thread.join()
            return "a line"

    for _ in range(3):
        log.emit(record)
    log.setFormatter(Formatter())
    assert log.lines() == ["a line"] * 3
