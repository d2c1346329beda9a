"""Users, sessions, tokens and roles."""
