"""The moto server and the account of each test."""

from tests.aws_fixtures import account, cloud, moto_url, refused

__all__ = ["account", "cloud", "moto_url", "refused"]
