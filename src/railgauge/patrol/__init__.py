"""Acceptance that runs by itself: a few idle nodes at a time, those that wait longest first."""
