"""Pure arithmetic: memory, capacity, cold start. Inputs and results are plain numbers."""
