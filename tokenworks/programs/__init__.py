"""One module per program; each is a table of contents of components."""

from tokenworks.programs.entry import main

__all__ = ["main"]
