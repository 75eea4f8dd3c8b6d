"""Events in virtual time: their queue, their effects on jobs, what is counted."""
