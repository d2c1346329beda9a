"""An outage played on a virtual clock."""
