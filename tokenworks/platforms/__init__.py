"""What differs from platform to platform, and nothing else."""
