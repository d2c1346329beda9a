"""Bulk actions: one action on many jobs."""
