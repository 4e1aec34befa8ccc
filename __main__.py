"""Which environment and program is this stack? Run it."""

from tokenworks.programs import main

main()
