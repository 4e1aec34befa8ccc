"""Everything that is decided from an environment, with the reason for each decision."""
