"""What people write: one YAML file per environment, read with line numbers and without mercy."""
