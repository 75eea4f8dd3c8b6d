"""HTTP layer: authentication, limits of bodies and rates, errors, event streams, the listening socket."""
