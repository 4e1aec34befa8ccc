"""The check: the rules of ``policy`` over recorded programs, manifests and running programs."""
