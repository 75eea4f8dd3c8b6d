"""Client of the API server: connections, credentials, errors, watches, leases."""
