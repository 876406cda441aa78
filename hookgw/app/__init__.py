"""The composition root: what a process of hookgw consists of, and the order of its start and its stop."""
