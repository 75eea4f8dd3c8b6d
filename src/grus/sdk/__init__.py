"""Python SDK: `client` from outside a job, `worker` from inside one."""
