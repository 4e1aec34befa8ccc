"""How the volume of a model is filled: from where, with what, by when, and what stays on it."""

from __future__ import annotations

import ipaddress
import math

from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.sections import Model
from tokenworks.environment.weights import Manifest
from tokenworks.environment.weights_source import ClaimSource, HttpSource, HubSource, host_and_port
from tokenworks.facts.downloads import CONNECTIONS, DOWNLOAD_MIB_PER_SECOND
from tokenworks.facts.start_up_phases import SHA256_MIB_PER_SECOND
from tokenworks.naming import weights_claim, weights_revision
from tokenworks.plan import sizes
from tokenworks.plan.types import (
    ClaimPlan,
    Decided,
    PopulatePlan,
    Reach,
    ServerPlan,
    WeightsPlan,
)
from tokenworks.sizing.cold_start import MARGIN_SECONDS, MIB, SAFETY, ColdStart

MODELS_MOUNT = "/models"

RETRIES = 4
COLLECT_SECONDS = 300
"""Removing files takes seconds; minutes where a network file system is busy."""
FOR_FILES = 0.95
"""A twentieth of a volume is the file system's own: what ext4 reserves (mke2fs -m)."""
SPARE_BYTES = 2**28
"""What stays free, so that the tool's own demand of 64 MiB never decides."""
REVISIONS_BESIDE_PREVIOUS = 2
"""The one that is served, and the one that arrives."""

NOT_PUBLIC_IPV4 = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
)
NOT_PUBLIC_IPV6 = ("::1/128", "fc00::/7", "fe80::/10")
"""Private, shared, loopback and link-local addresses, among these those of metadata services:
RFC 1918, 6598, 1122, 3927, 4193 and 4291."""


def weights_plan(loaded: LoadedEnvironment, model: Model, times: ColdStart) -> WeightsPlan:
    """The files of one model, and how they come to where its engines read them."""
    manifest = loaded.manifests[model.name]
    files = sorted(manifest.files, key=lambda file: file.path)
    volume = volume_gib(manifest.total_bytes, loaded.environment.weights_storage.previous_revisions)
    return WeightsPlan(
        repository=manifest.repository,
        revision=manifest.revision,
        digest=f"sha256:{manifest.digest}",
        files=tuple((file.path, file.bytes, file.sha256) for file in files),
        total_bytes=manifest.total_bytes,
        claim=weights_claim(model.name, volume.value),
        volume_gib=volume,
        mount_path=MODELS_MOUNT,
        folder=f"{weights_revision(manifest.revision, manifest.digest)}/{model.name}",
        populate=populate_plan(loaded, model, manifest, times),
    )


def volume_gib(total_bytes: int, previous: int) -> Decided[int]:
    """Size of the volume that holds every revision of a model that may be there at once."""
    revisions = previous + REVISIONS_BESIDE_PREVIOUS
    exact = math.ceil((total_bytes * revisions + SPARE_BYTES) / FOR_FILES / 2**30)
    step = 2 ** max(0, exact.bit_length() - 4)
    size = math.ceil(exact / step) * step
    return Decided(
        size,
        f"{total_bytes / 2**30:.1f} GiB x {revisions} revisions (the served one, {previous} for a "
        f"way back, one that arrives) and a twentieth for the file system are {exact} GiB; rounded "
        "up to an eighth of its order, so that a slightly larger revision needs no other volume",
    )


def populate_plan(
    loaded: LoadedEnvironment, model: Model, manifest: Manifest, times: ColdStart
) -> PopulatePlan:
    """The Job that fills the volume, and the one that removes what nobody uses."""
    storage, named = loaded.environment.weights_storage, model.weights.source
    files = sum(1 for file in manifest.files if file.bytes)
    rate = storage.download_mib_per_second
    many = connections(files)
    return PopulatePlan(
        source=_source(model, loaded.source_authorities.get(model.name)),
        reach=None if named.server is None else reach(named.server),
        connections=many,
        deadline_seconds=deadline_seconds(manifest.total_bytes, rate, times),
        collect_deadline_seconds=Decided(
            SAFETY * times.image_pull_seconds + COLLECT_SECONDS,
            f"{SAFETY} x {times.image_pull_seconds} s image + {COLLECT_SECONDS} s to remove files",
        ),
        retries=Decided(
            RETRIES,
            "each continues where the last one ended, so one serves a node that is lost; what the "
            "source refuses ends the Job at once, and drained nodes do not count",
        ),
        cpu_millicores=Decided(
            sizes.GATE_MILLICORES,
            f"one core, which hashes {SHA256_MIB_PER_SECOND} MiB/s; there is no limit, so that "
            "idle cores help",
        ),
        memory_mib=Decided(
            sizes.GATE_PROCESS_MIB + many.value * sizes.GATE_BUFFERS_MIB,
            f"{sizes.GATE_PROCESS_MIB} for the process and {sizes.GATE_BUFFERS_MIB} for each of "
            f"{many.value} files that are read at once when a revision is checked",
            ("weights.populate.connections",),
        ),
        previous_revisions=Decided(
            storage.previous_revisions,
            "those asked for last stay for a way back without a download; all others go once the "
            "rollout is complete, and never one that a release uses",
        ),
    )


def connections(files: int) -> Decided[int]:
    """Files that are fetched at once."""
    return Decided(
        max(1, min(files, CONNECTIONS)),
        f"one for each of {files} files, and at most the {CONNECTIONS} of the hub's own client",
    )


def deadline_seconds(total_bytes: int, rate: int | None, times: ColdStart) -> Decided[int]:
    """When a Job that fills a volume counts as stuck."""
    speed = rate or DOWNLOAD_MIB_PER_SECOND
    download = math.ceil(total_bytes / MIB / speed)
    known = "as measured" if rate else "an assumption: half a line of 1 Gbit/s"
    return Decided(
        SAFETY * (times.image_pull_seconds + download + times.check_seconds) + MARGIN_SECONDS,
        f"{SAFETY} x ({times.image_pull_seconds} s image + {download} s for "
        f"{total_bytes / 10**9:.1f} GB at {speed} MiB/s, {known}, + {times.check_seconds} s to "
        f"read again what an earlier run left) + {MARGIN_SECONDS} s; a Job that is ended loses "
        "nothing, the next one continues",
        ("cold_start",),
    )


def reach(server: HubSource | HttpSource) -> Decided[Reach]:
    """The addresses and the port that a download may call; whatever is not named is closed."""
    host, port = host_and_port(server.address)
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        literal = None
    if server.addresses is not None:
        networks, because = server.addresses, "as the environment names them"
    elif literal is not None:
        networks, because = (f"{literal}/{literal.max_prefixlen}",), "the server's own address"
    else:
        return Decided(
            Reach(
                port=port,
                networks=(("0.0.0.0/0", NOT_PUBLIC_IPV4), ("::/0", NOT_PUBLIC_IPV6)),
                names=True,
            ),
            f"{host} and those that it redirects to are known by name only, so every public "
            "address, and no private one, none of the cluster and no metadata service",
        )
    return Decided(
        Reach(port=port, networks=tuple((one, ()) for one in networks), names=literal is None),
        f"{because}, on port {port} alone",
    )


def _source(model: Model, authority: str | None) -> ServerPlan | ClaimPlan:
    weights, source = model.weights, model.weights.source.named
    if isinstance(source, ClaimSource):
        return ClaimPlan(claim=source.name, folder=source.folder or ".")
    url = source.address.rstrip("/")
    if isinstance(source, HubSource):
        url = f"{url}/{weights.repository}/resolve/{weights.revision}"
    return ServerPlan(
        url=f"{url}/",
        token_secret=source.token.pulumi_secret if source.token else None,
        authority=authority,
    )
