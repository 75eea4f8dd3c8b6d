"""Web dashboard: pages made on the server, updated by streams, behind the same authorization as the API."""
