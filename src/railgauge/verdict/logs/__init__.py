"""Outputs of tools in logs that people have: which run each is, before and after, as evidence."""
