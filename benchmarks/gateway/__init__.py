"""The gateway against none, TLS-only Envoy and nginx, and LiteLLM, in one run on one machine."""
