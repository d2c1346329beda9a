"""What other people's monitoring needs to watch Tidegate: rules for alerts, and dashboards, over its own metrics."""
