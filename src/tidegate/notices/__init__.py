"""Notices: who is notified of what, when, and through which channel."""
