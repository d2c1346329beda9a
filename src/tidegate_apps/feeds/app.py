"""Polls feeds, keeps their entries, and rests those that fail."""

from __future__ import annotations

from tidegate import App

app = App[None](name="feeds", title="Feeds", about="Feeds are polled, and those that fail rest.")
