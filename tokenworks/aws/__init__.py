"""Acting on an AWS account: what is there, what is to be done about it, and doing it."""
