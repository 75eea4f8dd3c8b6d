"""Durable state: implementations of the `Store` port. `memory` is the reference, `sqlite` the durable one."""
