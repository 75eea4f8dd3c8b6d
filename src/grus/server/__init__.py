"""The way in by HTTP: the web app, and the process around it; `docs/server.md` tells of both."""
