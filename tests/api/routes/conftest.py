from importlib.util import find_spec

# The session of the lowest versions goes without the SDK, which needs newer ones.
collect_ignore = [] if find_spec("mcp") else ["test_mcp.py"]
