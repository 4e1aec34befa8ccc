"""Manifests of weights: made from a hub or a folder, and compared with what is there now."""
