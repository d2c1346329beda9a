"""Live updates: one thread reads the store, one hub sends changes to every open page."""
