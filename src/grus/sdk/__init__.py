"""The Python way in: `client` from outside a job, `worker` from inside one."""
