"""Shows in three minutes what Tidegate does, on simulated services: `tidegate demo`."""
