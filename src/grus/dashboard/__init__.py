"""What people look at: pages made on the server, kept alive by streams, behind the same gate as the API."""
