"""Workers as processes of this machine. `docs/engine.md` tells the life of one as files and signals.

`engine` is the port's implementation and lives in the server's process. `launcher` is a small fork server,
and `supervisor` one process per worker; both must stay light: they, and the modules they use (`layout`,
`processes`, `killing`, `spawning`, `logfiles`, `memory`), import neither the model nor anything big.
"""
