"""What the AWS provider would answer, for programs that run without any cloud.

Ids, ARNs and addresses are made from names alone, so that two runs give the same ones. The account
is the one of AWS's own documentation. Values that AWS alone knows (an image, a version of an
add-on) are placeholders of the right form; rules judge the call, and never its answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

State = dict[str, Any]

ACCOUNT: Final = "123456789012"
REGION: Final = "eu-west-1"
_ZONES: Final = ("a", "b", "c")
# docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html
_PREFIXES: Final = {
    "AccessPoint": "fsap",
    "AmiFromInstance": "ami",
    "DataRepositoryAssociation": "dra",
    "Eip": "eipalloc",
    "FileSystem": "fs",
    "FlowLog": "fl",
    "Instance": "i",
    "InternetGateway": "igw",
    "LaunchTemplate": "lt",
    "LustreFileSystem": "fs",
    "MountTarget": "fsmt",
    "NatGateway": "nat",
    "NetworkAcl": "acl",
    "NetworkInterface": "eni",
    "PlacementGroup": "pg",
    "RouteTable": "rtb",
    "SecurityGroup": "sg",
    "SecurityGroupEgressRule": "sgr",
    "SecurityGroupIngressRule": "sgr",
    "SecurityGroupRule": "sgrule",
    "Snapshot": "snap",
    "Subnet": "subnet",
    "Volume": "vol",
    "VpcAttachment": "tgw-attach",
    "Vpc": "vpc",
    "VpcEndpoint": "vpce",
}
_PUBLIC_PARAMETERS: Final = "/aws/service/"


def resource_answer(type_token: str, name: str, inputs: Mapping[str, Any]) -> tuple[str, State]:
    """Return id and outputs of a created resource: the inputs, and what AWS adds to them."""
    service, kind = _service_and_kind(type_token)
    own = inputs.get("name") or f"{name}-{digits(type_token + name, 7)}"  # the provider's naming
    arn = f"arn:aws:{service}:{REGION}:{ACCOUNT}:{kind[:1].lower()}{kind[1:]}/{own}"
    id_ = arn if kind in _BY_ARN else _id(kind, name, str(own))
    added = _ADDED[kind](name, inputs) if kind in _ADDED else {}
    return id_, {"name": own, "arn": arn, "tagsAll": inputs.get("tags") or {}, **added, **inputs}


def call_answer(token: str, arguments: Mapping[str, Any]) -> State | None:
    """Return what a function of the provider answers, or None where nothing here knows it."""
    service, function = _service_and_kind(token)
    read = _CALLS.get(f"{service}.{function}")
    return read(arguments) if read is not None else None


def digits(text: str, count: int) -> str:
    """Return hexadecimal digits that depend on the text alone."""
    return hashlib.sha256(text.encode()).hexdigest()[:count]


def _service_and_kind(token: str) -> tuple[str, str]:
    _, module, kind = token.split(":")
    return module.partition("/")[0], kind


def _id(kind: str, name: str, own: str) -> str:
    prefix = _PREFIXES.get(kind)
    return f"{prefix}-{digits(kind + name, 17)}" if prefix else own


def _vpc(name: str, _: Mapping[str, Any]) -> State:
    return {
        "defaultSecurityGroupId": _id("SecurityGroup", f"{name}-default", ""),
        "defaultNetworkAclId": _id("NetworkAcl", f"{name}-default", ""),
        "mainRouteTableId": _id("RouteTable", f"{name}-main", ""),
        "defaultRouteTableId": _id("RouteTable", f"{name}-main", ""),
        "ownerId": ACCOUNT,
    }


def _cluster(name: str, inputs: Mapping[str, Any]) -> State:
    key = digits(name, 32).upper()
    issuer = f"https://oidc.eks.{REGION}.amazonaws.com/id/{key}"
    group = _id("SecurityGroup", f"{name}-cluster", "")
    return {
        "endpoint": f"https://{key}.gr7.{REGION}.eks.amazonaws.com",
        "certificateAuthority": {"data": base64.b64encode(b"a certificate").decode()},
        "certificateAuthorities": [{"data": base64.b64encode(b"a certificate").decode()}],
        "identities": [{"oidcs": [{"issuer": issuer}]}],
        "status": "ACTIVE",
        "createdAt": "2026-01-01T00:00:00Z",
        "vpcConfig": {**inputs.get("vpcConfig", {}), "clusterSecurityGroupId": group},
    }


def _load_balancer(name: str, _: Mapping[str, Any]) -> State:
    host = f"{name}-{digits(name, 16)}.elb.{REGION}.amazonaws.com"
    return {"dnsName": host, "zoneId": f"Z{digits(name, 13).upper()}"}


def _file_system(name: str, _: Mapping[str, Any]) -> State:
    id_ = _id("FileSystem", name, "")
    return {"dnsName": f"{id_}.efs.{REGION}.amazonaws.com"}


def _key(name: str, _: Mapping[str, Any]) -> State:
    id_ = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
    return {"keyId": id_, "arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{id_}"}


def _lustre(name: str, _: Mapping[str, Any]) -> State:
    id_ = _id("LustreFileSystem", name, "")
    return {"dnsName": f"{id_}.fsx.{REGION}.amazonaws.com", "mountName": digits(name, 8)}


def _role(name: str, inputs: Mapping[str, Any]) -> State:
    own = inputs.get("name") or name
    unique = f"AROA{digits(str(own), 17).upper()}"
    return {"arn": f"arn:aws:iam::{ACCOUNT}:role/{own}", "uniqueId": unique}


def _instance(name: str, _: Mapping[str, Any]) -> State:
    third, fourth = bytes.fromhex(digits(name, 4))
    return {"privateIp": f"10.0.{third}.{fourth}"}


_BY_ARN: Final = frozenset(
    {"Listener", "ListenerRule", "LoadBalancer", "OpenIdConnectProvider", "Policy", "TargetGroup"}
)
_ADDED: Final[dict[str, Callable[[str, Mapping[str, Any]], State]]] = {
    "Bucket": lambda name, inputs: {"bucket": inputs.get("bucket", f"{name}-{digits(name, 7)}")},
    "Cluster": _cluster,
    "FileSystem": _file_system,
    "Instance": _instance,
    "LaunchTemplate": lambda _name, _inputs: {"latestVersion": 1, "defaultVersion": 1},
    "LoadBalancer": _load_balancer,
    "LustreFileSystem": _lustre,
    "Key": _key,
    "Role": _role,
    "Vpc": _vpc,
}


def _identity(_: Mapping[str, Any]) -> State:
    arn = f"arn:aws:iam::{ACCOUNT}:role/check"
    return {"accountId": ACCOUNT, "arn": arn, "userId": "CHECK", "id": ACCOUNT}


def _region(arguments: Mapping[str, Any]) -> State:
    name = arguments.get("region") or arguments.get("name") or REGION
    return {"name": name, "region": name, "id": name, "endpoint": f"ec2.{name}.amazonaws.com"}


def _partition(_: Mapping[str, Any]) -> State:
    suffix = {"dnsSuffix": "amazonaws.com", "reverseDnsPrefix": "com.amazonaws"}
    return {"partition": "aws", "id": "aws", **suffix}


def _zones(_: Mapping[str, Any]) -> State:
    names = [f"{REGION}{zone}" for zone in _ZONES]
    ids = [f"euw1-az{number}" for number, _ in enumerate(_ZONES, start=1)]
    return {"names": names, "zoneIds": ids, "id": REGION, "groupNames": [REGION]}


def _image(arguments: Mapping[str, Any]) -> State:
    id_ = f"ami-{digits(json.dumps(arguments, sort_keys=True, default=str), 17)}"
    return {"id": id_, "imageId": id_, "architecture": "x86_64", "ownerId": ACCOUNT}


def _images(arguments: Mapping[str, Any]) -> State:
    """Answer a search with an image, except among the account's own: it has none yet."""
    if list(arguments.get("owners") or ()) == ["self"]:
        return {"ids": [], "id": "none"}
    return {"ids": [_image(arguments)["id"]], "id": digits(str(sorted(arguments)), 8)}


def _parameter(arguments: Mapping[str, Any]) -> State | None:
    """Answer a public parameter with an image; nobody else knows what others hold."""
    name = str(arguments.get("name", ""))
    if not name.startswith(_PUBLIC_PARAMETERS):
        return None
    return {"name": name, "value": f"ami-{digits(name, 17)}", "type": "String", "version": 1}


def _add_on(arguments: Mapping[str, Any]) -> State:
    name = str(arguments.get("addonName", ""))
    return {"addonName": name, "version": "v0.0.0-eksbuild.0", "id": name}


def _document(arguments: Mapping[str, Any]) -> State:
    document = {"Version": "2012-10-17", "Statement": arguments.get("statements", [])}
    text = json.dumps(document, sort_keys=True, default=str)
    return {"json": text, "minifiedJson": text, "id": digits(text, 8)}


def _network(arguments: Mapping[str, Any]) -> State:
    id_ = arguments.get("id") or f"vpc-{digits(str(sorted(arguments)), 17)}"
    return {"id": id_, "cidrBlock": "10.0.0.0/16"}


def _subnets(arguments: Mapping[str, Any]) -> State:
    text = json.dumps(arguments, sort_keys=True, default=str)
    return {"ids": [f"subnet-{digits(text + zone, 17)}" for zone in _ZONES], "id": REGION}


def _existing_role(arguments: Mapping[str, Any]) -> State:
    name = str(arguments.get("name", ""))
    return {"name": name, "id": name, **_role(name, arguments)}


_CALLS: Final[dict[str, Callable[[Mapping[str, Any]], State | None]]] = {
    "index.getCallerIdentity": _identity,
    "index.getAccountId": _identity,
    "index.getRegion": _region,
    "index.getPartition": _partition,
    "index.getAvailabilityZones": _zones,
    "ec2.getAmi": _image,
    "ec2.getAmiIds": _images,
    "ec2.getVpc": _network,
    "ec2.getSubnets": _subnets,
    "eks.getAddonVersion": _add_on,
    "iam.getPolicyDocument": _document,
    "iam.getRole": _existing_role,
    "ssm.getParameter": _parameter,
}
