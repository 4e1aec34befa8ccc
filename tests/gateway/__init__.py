"""The gateway, tested through the real Envoy on loopback."""
