"""Local engine: workers as processes of this machine. `docs/engine.md` shows their files and signals.

`engine` is the port's implementation and lives in the server's process. `launcher` is a small fork server,
and `supervisor` one process per worker. Both must stay light: they, and the modules they use (`state_files`,
`processes`, `process_kill`, `process_start`, `log_files`, `memory`), import neither the model nor any large
package.
"""
