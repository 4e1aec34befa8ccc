"""An environment's place in AWS, and the proof that these credentials are for it."""

from __future__ import annotations

from tokenworks.aws.client import Cloud, connect
from tokenworks.aws.target import Target
from tokenworks.environment.aws import Aws
from tokenworks.environment.load import load_environment
from tokenworks.errors import ConfigError, Problem
from tokenworks.naming import cluster_name
from tokenworks.workspace import Workspace


def target_of(name: str, section: Aws) -> Target:
    """Account, region and names, from the environment's file alone."""
    return Target(
        environment=name,
        account=section.account,
        region=section.region,
        cluster=cluster_name(name),
        state_bucket=section.state.bucket,
        key_alias=section.state.key_alias,
    )


def find_target(workspace: Workspace, name: str) -> Target:
    """The place of an environment by its name.

    Raises:
        ConfigError: the file is wrong, or the environment is not on AWS.
    """
    loaded = load_environment(name, workspace.stacks)
    if loaded.environment.aws is None:
        raise ConfigError(
            [
                Problem(
                    key="platform",
                    given=loaded.environment.platform,
                    reason="has nothing in AWS",
                    remedy="name an environment of platform aws",
                    file=workspace.stacks / f"{name}.yaml",
                    line=1,
                )
            ]
        )
    return target_of(name, loaded.environment.aws)


def find_cloud(workspace: Workspace, name: str) -> Cloud:
    """The account and region of an environment, asked who is calling before anything else."""
    return connect(find_target(workspace, name))
