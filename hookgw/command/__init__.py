"""The commands. Each module is imported when its command is called, and no sooner."""
