"""Permissions, users, tokens, secrets, isolation and audit records."""
