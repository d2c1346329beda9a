"""A stand-in for an HTTP service: `service` is what people use, the other files are how it does it."""
