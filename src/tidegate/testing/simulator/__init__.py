"""A scriptable HTTP server."""
