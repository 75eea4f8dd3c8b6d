"""The command line: one file per group of verbs; talks to the server through `grus.sdk.client` only."""
