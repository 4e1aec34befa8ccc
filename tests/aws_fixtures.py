"""A moto server on loopback, and an environment in which nothing can reach AWS itself."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.aws_refusing import refusing
from tokenworks.aws.client import Cloud, connect
from tokenworks.aws.target import Target

ACCOUNT = "123456789012"
"""The account that moto answers for."""
REGION = "us-east-1"
TARGET = Target(
    environment="shop",
    account=ACCOUNT,
    region=REGION,
    cluster="tokenworks-shop",
    state_bucket="shop-state",
    key_alias="alias/shop-state",
)
TAGS = {"tokenworks:environment": "shop", "tokenworks:program": "network"}


@pytest.fixture(scope="session")
def moto_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of this test session; it is ended by its own process id."""
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"]
    log = tmp_path_factory.mktemp("moto") / "log"
    # Hundreds of public images, made anew at each reset, are most of its time.
    variables = {**os.environ, "MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}
    # A file, not a pipe: nobody would read on, and a full pipe stops the server.
    with (
        log.open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=file, env=variables) as process,
    ):
        try:
            yield _address(process, log)
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text("utf-8")):
            return found.group()
        time.sleep(0.05)
    raise AssertionError(f"moto ended: {log.read_text('utf-8')}")


@pytest.fixture
def account(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty account for one test; every client of this process and its children talks to it."""
    host = moto_url.removeprefix("http://")
    connection = http.client.HTTPConnection(host)
    connection.request("POST", "/moto-api/reset")
    assert connection.getresponse().status == 200
    connection.close()
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    settings = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": moto_url,
        "AWS_REGION": REGION,
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return moto_url


@pytest.fixture
def cloud(account: str) -> Cloud:
    """The account, as the operations see it."""
    return connect(TARGET)


@pytest.fixture
def refused(account: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Names of EC2's operations that are refused from now on, by a proxy before the account."""
    with refusing(account) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy.refused


def client(service: str) -> Any:
    """A client beside the operations', with which a test makes and looks at things."""
    return boto3.session.Session().client(service, region_name=REGION)


def base_image() -> str:
    """An image from which machines can be started."""
    return str(client("ec2").register_image(Name="base", RootDeviceName="/dev/sda1")["ImageId"])


def as_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags as EC2 wants them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tagged(kind: str, tags: dict[str, str]) -> list[dict[str, Any]]:
    """Tag specifications of one kind of resource."""
    return [{"ResourceType": kind, "Tags": as_list(tags)}]
