"""Workers as engines get them: command, environment, exit status, endpoints, logs."""
