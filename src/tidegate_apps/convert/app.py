"""Turns PDF files into XML, in the background, and keeps both for a while."""

from __future__ import annotations

from tidegate import App

app = App[None](name="convert", title="Convert", about="PDF files become XML.")
