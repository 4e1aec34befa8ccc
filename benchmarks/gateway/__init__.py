"""The gateway against going without one, TLS-only nginx and LiteLLM, in one run on one machine."""
