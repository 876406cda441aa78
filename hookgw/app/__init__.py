"""The composition root: the parts of a process of hookgw, and the order of its start and stop."""
