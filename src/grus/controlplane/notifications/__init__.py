"""Notifications: events of jobs sent to webhooks and by e-mail, at least once and in the order of the log.

Each receiver has a thread and a durable cursor into the event log. The cursor moves after the receiver has
accepted a message, so a server that is killed sends at most the last one again, and loses none.
"""
