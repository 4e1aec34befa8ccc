"""The private network that everything else of an AWS environment is put into."""

from __future__ import annotations

import pulumi

from tokenworks.components.aws.endpoints import ENDPOINTS_GROUP, Endpoints, EndpointsArgs
from tokenworks.components.aws.firewall import Firewall, FirewallArgs
from tokenworks.components.aws.network import Network, NetworkArgs
from tokenworks.components.aws.routes import Routes, RoutesArgs
from tokenworks.programs.aws_account import Account, account
from tokenworks.programs.context import Context


def program(context: Context) -> None:
    """Create the network and export the ids of its subnets and security groups."""
    owner = account(context, "network")
    plan = owner.plan.network
    network = Network(
        "network", NetworkArgs(title=owner.title, plan=plan, tags=owner.tags), owner.opts
    )
    routes = _routes(owner, network)
    firewall = Firewall(
        "firewall",
        FirewallArgs(title=owner.title, plan=plan, vpc_id=network.vpc_id, tags=owner.tags),
        owner.opts,
    )
    Endpoints(
        "endpoints",
        EndpointsArgs(
            title=owner.title,
            region=owner.plan.region,
            plan=plan,
            vpc_id=network.vpc_id,
            subnet_ids=network.subnet_ids,
            table_ids=routes.private_table_ids,
            group_id=firewall.group_ids[ENDPOINTS_GROUP],
            tags=owner.tags,
        ),
        owner.opts,
    )
    pulumi.export("vpc_id", network.vpc_id)
    pulumi.export("subnet_ids", network.subnet_ids)
    pulumi.export("group_ids", firewall.group_ids)


def _routes(owner: Account, network: Network) -> Routes:
    return Routes(
        "routes",
        RoutesArgs(
            title=owner.title,
            plan=owner.plan.network,
            vpc_id=network.vpc_id,
            subnet_ids=network.subnet_ids,
            tags=owner.tags,
        ),
        owner.opts,
    )
