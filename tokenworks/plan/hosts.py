"""What machines that exist are to have, and whether their lock carries what is to run on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tokenworks.engines import tensorrt_llm
from tokenworks.environment.certificate import CertificateReference
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.sections import NodePool
from tokenworks.errors import Problem
from tokenworks.facts import gpu_drivers
from tokenworks.hosts.beside import HostFiles
from tokenworks.hosts.compatibility import (
    Misfit,
    branch_notes,
    cuda_notes,
    gpu_misfits,
    lock_misfits,
)
from tokenworks.hosts.inventory import Host
from tokenworks.hosts.lock import HostLock
from tokenworks.naming import NVIDIA_RUNTIME
from tokenworks.plan.types import (
    ClusterPlan,
    Decided,
    GivenCertificate,
    HostAccess,
    HostPoolPlan,
)


def driver_version(pool: NodePool, files: HostFiles) -> str:
    """The driver of a pool: that of its lock, or the one that the environment gives."""
    lock = files.locks.get(pool.name)
    return lock.driver.version if lock else pool.driver_version or "0"


def host_problems(loaded: LoadedEnvironment, files: HostFiles) -> Iterator[Problem]:
    """Every reason why a pool's lock cannot be used for its GPUs."""
    for index, pool in enumerate(loaded.environment.node_pools):
        lock = files.locks.get(pool.name)
        if lock is None:
            continue
        misfits = [*lock_misfits(lock), *_gpu_misfits(pool, lock)]
        for misfit in misfits:
            yield loaded.source.problem(
                ("node_pools", index, "host_lock"),
                given=f"{pool.host_lock}: {misfit.given}",
                reason=misfit.reason,
                remedy=misfit.remedy,
            )


def host_notes(loaded: LoadedEnvironment, files: HostFiles) -> Iterator[str]:
    """What is allowed, and should be known: ends of branches, and drivers older than their CUDA."""
    pools = loaded.environment.node_pools
    for index, pool in enumerate(pools):
        if lock := files.locks.get(pool.name):
            for note in branch_notes(lock.driver.branch, gpu_drivers.READ_ON):
                yield f"node_pools[{index}].host_lock: {note}"
    for index, (driver, cuda) in _drivers_and_cuda(loaded, files):
        for note in cuda_notes(driver, cuda):
            yield f"models[{index}].engine: {note}"


def host_pool_plan(
    pool: NodePool, access_jump: str | None, files: HostFiles
) -> HostPoolPlan | None:
    """The machines of a pool; one without a failure domain of its own is one."""
    lock = files.locks.get(pool.name)
    if lock is None or pool.host_lock is None:
        return None
    settings = files.settings[pool.name]
    return HostPoolPlan(
        lock_name=pool.host_lock,
        lock=lock,
        settings=settings.model_copy(update={"expected_gpus": _gpus(pool)}),
        machines=tuple(
            Host(
                name=machine.name,
                address=machine.address,
                jump_host=machine.jump_host or access_jump,
                failure_domain=machine.failure_domain or machine.name,
            )
            for machine in pool.machines or ()
        ),
    )


def runtime_class(pool: NodePool, platform: str) -> Decided[str | None]:
    """The RuntimeClass of pods that use a pool's GPUs; None where the nodes' default serves."""
    if pool.host_lock is None:
        return Decided(None, f"the default runtime of {platform} nodes gives pods their GPUs")
    return Decided(
        NVIDIA_RUNTIME,
        "containerd's default stays runc on machines under a host lock, so that only pods that ask "
        "for the NVIDIA runtime see GPUs, whatever variables their images set",
    )


def access_plan(loaded: LoadedEnvironment) -> HostAccess | None:
    """How the machines are reached, on platform hosts."""
    ssh = loaded.environment.ssh
    if ssh is None:
        return None
    return HostAccess(user=ssh.user, known_hosts=ssh.known_hosts, key_file=ssh.key_file)


def cluster_plan(loaded: LoadedEnvironment) -> ClusterPlan | None:
    """The cluster that the machines belong to, on platform hosts."""
    cluster = loaded.environment.cluster
    if cluster is None:
        return None
    return ClusterPlan(
        kubeconfig=cluster.kubeconfig,
        weights_storage_class=cluster.weights_storage_class,
        load_balancer_class=cluster.load_balancer_class,
        load_balancer_needs_node_ports=cluster.load_balancer_needs_node_ports,
        load_balancer_annotations=cluster.load_balancer_annotations,
        certificate=given_certificate(cluster.certificate),
    )


def given_certificate(certificate: CertificateReference | None) -> GivenCertificate | None:
    """The gateway's certificate as it was given; None where an issuer signs one."""
    if certificate is None:
        return None
    secret = certificate.private_key.pulumi_secret
    return GivenCertificate(chain=certificate.chain, key_secret=secret)


def _gpus(pool: NodePool) -> int:
    return pool.known_shape.gpu_count


def _gpu_misfits(pool: NodePool, lock: HostLock) -> Iterable[Misfit]:
    shape = pool.shape
    return gpu_misfits(lock, shape.gpu, shape.compute_capability) if shape else ()


def _drivers_and_cuda(
    loaded: LoadedEnvironment, files: HostFiles
) -> Iterator[tuple[int, tuple[str, str]]]:
    """Driver and CUDA release of each model that runs under a lock and whose release is known."""
    for index, model in enumerate(loaded.environment.models):
        lock = files.locks.get(model.node_pool)
        cuda = tensorrt_llm.cuda_release(model.engine.version)
        if lock is not None and cuda is not None:
            yield index, (lock.driver.version, cuda)
