"""HTTP server: the web app, and the process around it; `docs/server.md` describes both."""
