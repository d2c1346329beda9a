"""Simulates an outage on a virtual clock."""
