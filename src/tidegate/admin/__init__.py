"""What an operator reads, over all packages."""
