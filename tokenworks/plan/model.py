"""One model's share of a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

from tokenworks.engines import tensorrt_llm
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.naming import content_hash
from tokenworks.plan import sizes
from tokenworks.plan.candidate import Candidate
from tokenworks.plan.capacity import Sized
from tokenworks.plan.case import Case
from tokenworks.plan.hosts import runtime_class
from tokenworks.plan.placement import Demand, Room, rollout
from tokenworks.plan.types import Decided, Image, ModelPlan, Probe, WeightsPlan
from tokenworks.plan.weights import weights_plan
from tokenworks.sizing.cold_start import MARGIN_SECONDS, SAFETY, ColdStart

CONFIG_MOUNT = "/etc/engine"
CONFIG_FILE = "config.yaml"
CACHE_MOUNT = "/cache"

ENDPOINT_REMOVAL_SECONDS = 15
"""How long the gateway may still send requests to a pod that is on its way out."""
STARTUP_PERIOD_SECONDS = 5
"""Also how long it waits for an answer: an engine that hangs has no more than its budget."""
PROBE_PERIOD_SECONDS = 10
PROBE_TIMEOUT_SECONDS = 15
"""The kubelet's default of one second fails engines that are merely busy."""
LIVENESS_TIMEOUT_SECONDS = PROBE_PERIOD_SECONDS
"""Asks the process only. A longer one would stretch the period: the kubelet asks one at a time."""
LIVENESS_FAILURES = 6
LIVENESS_SECONDS = LIVENESS_FAILURES * PROBE_PERIOD_SECONDS
EXIT_SECONDS = 15
"""What an engine that is ill, but still hears, has to let go of its GPUs."""
KILL_SECONDS = ENDPOINT_REMOVAL_SECONDS + EXIT_SECONDS
"""The kubelet runs the drain first and counts it in, also for a container that it condemned."""
_KILL_BECAUSE = (
    f"once it failed, {KILL_SECONDS} s until it is killed: {ENDPOINT_REMOVAL_SECONDS} s of drain, "
    f"{EXIT_SECONDS} s to end by itself; it answers nobody, so it has no request to finish; with "
    "the pod's own time one that hangs would hold its GPUs as long as the longest request"
)


class _Host(TypedDict):
    """What one replica asks of its node."""

    shared_memory_mib: Decided[int]
    host_memory_mib: Decided[int]
    cpu_millicores: Decided[int]
    cache_volume_gib: Decided[int]
    scratch_volume_gib: Decided[int]
    weights_gate_cpu_millicores: Decided[int]
    weights_gate_memory_mib: Decided[int]
    weights_gate_threads: Decided[int]


class _Start(TypedDict):
    """How a replica starts, and what waits for it."""

    cold_start: Decided[ColdStart]
    rollout_limit_seconds: Decided[int]
    schedule_lead_seconds: Decided[int]
    startup_probe: Decided[Probe]
    progress_deadline_seconds: Decided[int]


class _Stop(TypedDict):
    """How a replica ends."""

    drain_seconds: Decided[int]
    termination_grace_seconds: Decided[int]


class _Split(TypedDict):
    """How a replica is divided among GPUs."""

    tensor_parallel: Decided[int]
    pipeline_parallel: Decided[int]
    expert_parallel: Decided[int]
    attention_data_parallel: Decided[bool]


def model_plan(
    loaded: LoadedEnvironment, sized: Sized, demands: Sequence[Demand], times: ColdStart
) -> ModelPlan:
    """Everything about one model, from a candidate that fits and the demands on its pool."""
    ready = sized.candidate
    model, engine = ready.model, ready.model.engine
    image = _image(ready)
    weights = weights_plan(loaded, model, times)
    config = _config_file(ready, tenants=len(loaded.environment.gateway.tenants))
    room = Room(nodes=ready.pool.size, gpus_per_node=ready.instance.gpu_count)
    return ModelPlan(
        name=model.name,
        engine=engine.name,
        engine_version=engine.version,
        image=image,
        node_pool=ready.pool.name,
        gpu_product=ready.gpu.product,
        runtime_class=runtime_class(ready.pool, loaded.environment.platform),
        weights=weights,
        model_shape=_shape(ready.case),
        memory=ready.memory,
        kv_cache_free_memory_percent=sizes.kv_cache_percent(model),
        replicas=ready.replicas,
        max_batch_size=sizes.max_batch_size(model),
        max_num_tokens=sizes.max_num_tokens(model),
        command=tensorrt_llm.command(weights.path, f"{CONFIG_MOUNT}/{CONFIG_FILE}"),
        config_file=config,
        environment_variables=_environment_variables(),
        port=tensorrt_llm.PORT,
        metrics_path=tensorrt_llm.METRICS_PATH,
        capacity=sized.capacity,
        readiness_probe=_READINESS,
        liveness_probe=_LIVENESS,
        rollout=rollout(room, demands, model.name),
        release=content_hash([image.digest, weights.digest, config.value]),
        **_split(ready),
        **_host(ready, weights),
        **_start(loaded, weights, times, ready.replicas.value),
        **_stop(loaded.environment.gateway.max_request_seconds),
    )


def _image(ready: Candidate) -> Image:
    locked = ready.locked
    return Image(repository=locked.repository, tag=locked.tag, digest=locked.digest)


def _split(ready: Candidate) -> _Split:
    parallel = ready.fit.parallel
    return {
        "tensor_parallel": parallel.tensor,
        "pipeline_parallel": parallel.pipeline,
        "expert_parallel": parallel.expert,
        "attention_data_parallel": parallel.attention_data,
    }


def _host(ready: Candidate, weights: WeightsPlan) -> _Host:
    gpu, gpus, instance = ready.gpu, ready.gpus_per_replica, ready.instance
    threads = sizes.weights_gate_threads(len(weights.files), instance.vcpus)
    return {
        "shared_memory_mib": sizes.shared_memory_mib(gpu),
        "host_memory_mib": sizes.host_memory_mib(weights.total_bytes, gpus, gpu),
        "cpu_millicores": sizes.cpu_millicores(instance, gpus),
        "cache_volume_gib": sizes.cache_volume_gib(),
        "scratch_volume_gib": sizes.scratch_volume_gib(),
        "weights_gate_cpu_millicores": sizes.weights_gate_cpu_millicores(),
        "weights_gate_memory_mib": sizes.weights_gate_memory_mib(threads.value),
        "weights_gate_threads": threads,
    }


def _start(
    loaded: LoadedEnvironment, weights: WeightsPlan, times: ColdStart, replicas: int
) -> _Start:
    rate = loaded.environment.weights_storage.read_mib_per_second
    return {
        "cold_start": Decided(times, _cold_start_because(times, weights.total_bytes, rate)),
        "rollout_limit_seconds": _rollout_limit(times, replicas),
        "schedule_lead_seconds": Decided(
            times.schedule_lead_seconds,
            "a schedule starts this long before the load: by then even a slow start is over",
            ("progress_deadline_seconds",),
        ),
        "startup_probe": _startup_probe(times),
        "progress_deadline_seconds": Decided(
            times.progress_deadline_seconds,
            f"{SAFETY} x ({times.node_seconds} s for a lost node to be replaced + "
            f"{times.image_pull_seconds} s image + {times.check_seconds} s check) + "
            f"{times.budget_seconds} s start-up budget + {MARGIN_SECONDS} s, before a rollout "
            "counts as stuck",
            ("cold_start", "startup_probe"),
        ),
    }


def _stop(longest: int) -> _Stop:
    return {
        "drain_seconds": Decided(
            ENDPOINT_REMOVAL_SECONDS, "the gateway learns of a leaving pod within this time"
        ),
        "termination_grace_seconds": Decided(
            ENDPOINT_REMOVAL_SECONDS + longest,
            f"{ENDPOINT_REMOVAL_SECONDS} s of drain, then the longest request ({longest} s)",
        ),
    }


def _shape(case: Case) -> Decided[str]:
    config = case.config
    kept = "latent attention" if config.latent else f"{config.kv_heads} KV heads"
    mixture = f", {config.experts.count} experts" if config.experts else ""
    source = f"from {case.shape.file}, which the environment names"
    if case.shape.file is None:
        source = f"shipped for {config.repository}; source: {config.source}"
    shape = f"{config.layers} layers, {config.attention_heads} attention heads, {kept}{mixture}"
    return Decided(shape, source)


def _config_file(ready: Candidate, *, tenants: int) -> Decided[dict[str, object]]:
    model, tokens = ready.model, sizes.max_num_tokens(ready.model).value
    shared = tenants > 1
    because = (
        f"prefix cache off: {tenants} tenants share the engine, and the time a cached prefix saves "
        "would tell one what another asked. Requests of isolated tenants carry a salt, but "
        f"that {model.engine.name} {model.engine.version} keeps salted prefixes apart was never "
        "seen running: its sources were read at other commits"
        if shared
        else "prefix cache on: there is one tenant"
    )
    return Decided(
        tensorrt_llm.config_file(
            way=ready.fit.way,
            kv_cache_fraction=sizes.kv_cache_percent(model).value / 100,
            max_batch_size=sizes.max_batch_size(model).value,
            max_num_tokens=tokens,
            max_model_len_tokens=model.max_model_len_tokens,
            chunked_prefill=model.max_model_len_tokens > tokens,
            block_reuse=not shared,
        ),
        because,
        (
            "tensor_parallel",
            "pipeline_parallel",
            "expert_parallel",
            "attention_data_parallel",
            "kv_cache_free_memory_percent",
            "max_batch_size",
            "max_num_tokens",
        ),
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


def _cold_start_because(times: ColdStart, weight_bytes: int, read_mib_per_second: int) -> str:
    return (
        f"{weight_bytes / 10**9:.1f} GB at {read_mib_per_second} MiB/s: {times.check_seconds} s to "
        f"check, {times.load_seconds} s to load, {times.warm_up_seconds} s for framework, kernels "
        f"and graphs: {times.on_known_node_seconds} s where node and image are there; "
        f"{times.image_pull_seconds} s for the image and {times.node_seconds} s for a new node: "
        f"{times.on_new_node_seconds} s; {times.metric_window_seconds} s until a scaler sees the "
        f"load: {times.scale_out_seconds} s"
    )


def _rollout_limit(times: ColdStart, replicas: int) -> Decided[int]:
    return Decided(
        times.rollout_seconds(replicas, ENDPOINT_REMOVAL_SECONDS),
        f"{replicas} replicas one after the other, each with {ENDPOINT_REMOVAL_SECONDS} s of drain "
        f"and the progress deadline, and {MARGIN_SECONDS} s; whatever waits for a rollout must "
        "wait longer than this",
        ("replicas", "progress_deadline_seconds"),
    )


def _startup_probe(times: ColdStart) -> Decided[Probe]:
    budget = times.budget_seconds
    return Decided(
        Probe(
            path=tensorrt_llm.STARTED_PATH,
            period_seconds=STARTUP_PERIOD_SECONDS,
            timeout_seconds=STARTUP_PERIOD_SECONDS,
            failure_threshold=math.ceil(budget / STARTUP_PERIOD_SECONDS),
            kill_seconds=KILL_SECONDS,
        ),
        f"{budget} s are {SAFETY} x ({times.load_seconds} s loading + {times.warm_up_seconds} s "
        f"warm-up); the engine answers only once it has loaded; {_KILL_BECAUSE}",
        ("cold_start",),
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
        timeout_seconds=LIVENESS_TIMEOUT_SECONDS,
        failure_threshold=LIVENESS_FAILURES,
        kill_seconds=KILL_SECONDS,
    ),
    "the process only: it fails when the executor is dead or a rank crashed, not when it is busy, "
    f"and one that hangs is found within {LIVENESS_SECONDS} s; {_KILL_BECAUSE}",
)
