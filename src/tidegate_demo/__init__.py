"""The demo: a story on simulated services."""
