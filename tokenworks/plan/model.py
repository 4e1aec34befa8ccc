"""One model's share of a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tokenworks.engines import tensorrt_llm
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.environment.weights import Manifest
from tokenworks.naming import content_hash, weights_claim
from tokenworks.plan import sizes
from tokenworks.plan.candidate import Candidate
from tokenworks.plan.placement import Demand, Room, rollout
from tokenworks.plan.types import Decided, Image, ModelPlan, Probe, WeightsPlan
from tokenworks.sizing.start_up import SAFETY, StartUp, start_up

CONFIG_MOUNT = "/etc/engine"
CONFIG_FILE = "config.yaml"
MODELS_MOUNT = "/models"
CACHE_MOUNT = "/cache"

ENDPOINT_REMOVAL_SECONDS = 15
"""How long the gateway may still send requests to a pod that is on its way out."""
PROBE_PERIOD_SECONDS = 10
PROBE_TIMEOUT_SECONDS = 15
"""The kubelet's default of one second fails engines that are merely busy."""
LIVENESS_FAILURES = 6


def model_plan(loaded: LoadedEnvironment, ready: Candidate, demands: Sequence[Demand]) -> ModelPlan:
    """Everything about one model, from a candidate that fits and the demands on its pool."""
    model, gpu, tensor_parallel = ready.model, ready.gpu, ready.tensor_parallel.value
    image = Image(
        repository=ready.locked.repository, tag=ready.locked.tag, digest=ready.locked.digest
    )
    weights = _weights(model.name, ready.manifest)
    config = _config_file(ready, tenants=len(loaded.environment.gateway.tenants))
    rate = loaded.environment.weights_storage.read_mib_per_second
    times = start_up(weights.total_bytes, rate)
    longest = loaded.environment.gateway.max_request_seconds
    room = Room(nodes=ready.pool.nodes, gpus_per_node=ready.instance.gpu_count)
    return ModelPlan(
        name=model.name,
        engine=model.engine.name,
        engine_version=model.engine.version,
        image=image,
        node_pool=ready.pool.name,
        gpu_product=gpu.product,
        weights=weights,
        memory=ready.memory,
        tensor_parallel=ready.tensor_parallel,
        replicas=ready.replicas,
        max_batch_size=sizes.max_batch_size(model),
        max_num_tokens=sizes.max_num_tokens(model),
        command=tensorrt_llm.command(weights.mount_path, f"{CONFIG_MOUNT}/{CONFIG_FILE}"),
        config_file=config,
        environment_variables=_environment_variables(),
        port=tensorrt_llm.PORT,
        metrics_path=tensorrt_llm.METRICS_PATH,
        start_up=Decided(times, _start_up_because(times, weights.total_bytes, rate)),
        startup_probe=_startup_probe(times),
        readiness_probe=_READINESS,
        liveness_probe=_LIVENESS,
        shared_memory_mib=sizes.shared_memory_mib(gpu),
        host_memory_mib=sizes.host_memory_mib(weights.total_bytes, tensor_parallel, gpu),
        cpu_millicores=sizes.cpu_millicores(ready.instance, tensor_parallel),
        rollout=rollout(room, demands, model.name),
        progress_deadline_seconds=Decided(
            times.progress_deadline_seconds,
            "image pull, checking the weights and the start-up budget, before a rollout counts as "
            "stuck",
        ),
        drain_seconds=Decided(
            ENDPOINT_REMOVAL_SECONDS, "the gateway learns of a leaving pod within this time"
        ),
        termination_grace_seconds=Decided(
            ENDPOINT_REMOVAL_SECONDS + longest,
            f"{ENDPOINT_REMOVAL_SECONDS} s of drain, then the longest request ({longest} s)",
        ),
        release=content_hash([image.digest, weights.digest, config.value]),
    )


def _weights(model: str, manifest: Manifest) -> WeightsPlan:
    files = sorted(manifest.files, key=lambda file: file.path)
    return WeightsPlan(
        repository=manifest.repository,
        revision=manifest.revision,
        digest=f"sha256:{manifest.digest}",
        files=tuple((file.path, file.bytes, file.sha256) for file in files),
        total_bytes=manifest.total_bytes,
        claim=weights_claim(model, manifest.digest),
        mount_path=f"{MODELS_MOUNT}/{model}",
    )


def _config_file(ready: Candidate, *, tenants: int) -> Decided[dict[str, object]]:
    model, tokens = ready.model, sizes.max_num_tokens(ready.model).value
    shared = tenants > 1
    because = (
        f"prefix cache off: {tenants} tenants share the engine, and the time a cached prefix saves "
        "would tell one what another asked"
        if shared
        else "prefix cache on: there is one tenant"
    )
    return Decided(
        tensorrt_llm.config_file(
            tensor_parallel=ready.tensor_parallel.value,
            max_batch_size=sizes.max_batch_size(model).value,
            max_num_tokens=tokens,
            max_model_len_tokens=model.max_model_len_tokens,
            chunked_prefill=model.max_model_len_tokens > tokens,
            block_reuse=not shared,
        ),
        because,
    )


def _environment_variables() -> dict[str, str]:
    """Telemetry off, no hub, and every cache below the one folder that can be written."""
    caches = {
        "HOME": CACHE_MOUNT,
        "XDG_CACHE_HOME": f"{CACHE_MOUNT}/xdg",
        "HF_HOME": f"{CACHE_MOUNT}/huggingface",
        "TRITON_CACHE_DIR": f"{CACHE_MOUNT}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_MOUNT}/torchinductor",
    }
    return dict(sorted((tensorrt_llm.ENVIRONMENT | caches).items()))


def _start_up_because(times: StartUp, weight_bytes: int, read_mib_per_second: int) -> str:
    return (
        f"{weight_bytes / 10**9:.1f} GB at {read_mib_per_second} MiB/s: {times.check_seconds} s to "
        f"check, {times.load_seconds} s to load, {times.warm_up_seconds} s allowed for warm-up"
    )


def _startup_probe(times: StartUp) -> Decided[Probe]:
    budget = times.budget_seconds
    return Decided(
        Probe(
            path=tensorrt_llm.STARTED_PATH,
            period_seconds=PROBE_PERIOD_SECONDS,
            timeout_seconds=PROBE_TIMEOUT_SECONDS,
            failure_threshold=math.ceil(budget / PROBE_PERIOD_SECONDS),
        ),
        f"{budget} s are {SAFETY} x ({times.load_seconds} s loading + {times.warm_up_seconds} s "
        "warm-up); the engine answers only once it has loaded",
    )


_READINESS = Decided(
    Probe(
        path=tensorrt_llm.INFERENCE_PATH,
        period_seconds=PROBE_PERIOD_SECONDS,
        timeout_seconds=PROBE_TIMEOUT_SECONDS,
        failure_threshold=3,
    ),
    "asks the model for one token, since a process that is up proves nothing",
)

_LIVENESS = Decided(
    Probe(
        path=tensorrt_llm.ALIVE_PATH,
        period_seconds=PROBE_PERIOD_SECONDS,
        timeout_seconds=PROBE_TIMEOUT_SECONDS,
        failure_threshold=LIVENESS_FAILURES,
    ),
    "the process only: it fails when the executor is dead or a rank crashed, not when it is busy",
)
