"""GPU hosts: what must be on them, what is, what a run changes, and running it."""
