"""What is decided about AWS."""
