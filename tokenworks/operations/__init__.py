"""What people do with an environment: bring it up, take it down, look at it."""
