"""What people see and do: reports and pictures, the same for page, command line and API."""
