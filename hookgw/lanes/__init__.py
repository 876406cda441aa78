"""Lanes, the dispatcher that starts them, and the rules by which an attempt is judged."""
