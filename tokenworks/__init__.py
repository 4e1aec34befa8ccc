"""Self-hosted LLM inference from one file: environment, plan, components, programs, operations."""
