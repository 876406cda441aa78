"""The commands. Each module is imported only when its command is called."""
