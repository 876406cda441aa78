"""Clocks, tasks, threads and waiting in line, under Trio. Knows no concept of hookgw."""
