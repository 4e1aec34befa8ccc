"""How an inference engine is recognised, wherever it is and whatever its name."""

from __future__ import annotations

import re
from typing import Final

from policy.images import ImageError, parse_image
from policy.labels import ENGINE, MODEL, ROLE
from policy.pods import PodSpec
from policy.resources import UNKNOWN, Body, Unknown, Value, elements, is_body, number, peek

# Ports on which engines and their management interfaces listen unless told otherwise.
PORTS: Final[dict[int, str]] = {
    # nvidia.github.io/TensorRT-LLM/commands/trtllm-serve; docs.vllm.ai/en/stable/cli/serve;
    # Triton's HTTP service and Ray Serve share it.
    8000: "trtllm-serve, vllm serve, Triton",
    # docs.nvidia.com/deeplearning/triton-inference-server: gRPC and metrics.
    8001: "Triton gRPC",
    8002: "Triton metrics",
    # docs.ray.io/en/latest/ray-security: whoever reaches the dashboard runs code on the cluster.
    8265: "Ray dashboard",
    # docs.ray.io/en/latest/ray-core/configure: ports of Ray's client and of the dashboard's agent.
    10001: "Ray client",
    52365: "Ray dashboard agent",
    # docs.sglang.ai/advanced_features/server_arguments
    30000: "SGLang",
    # docs.ollama.com/faq
    11434: "Ollama",
    # lmdeploy.readthedocs.io/en/latest/llm/api_server.html
    23333: "LMDeploy",
}
# Ports on which proxies and exporters let themselves be managed or read.
MANAGEMENT_PORTS: Final[dict[int, str]] = {
    # envoyproxy.io/docs/envoy/latest/start/quick-start/admin
    9901: "Envoy's administration",
    # istio.io/latest/docs/ops/deployment/application-requirements
    15000: "Istio's Envoy administration",
    # github.com/NVIDIA/dcgm-exporter
    9400: "dcgm-exporter",
}
# Names of ports that are not for callers, whole or as a part between dashes.
_MANAGEMENT_WORD: Final = re.compile(r"(?:^|-)(?:metrics|admin|management|dashboard|debug)(?:$|-)")

# Words in image repositories, workload names and labels that stand for an engine.
_ENGINE_WORD: Final = re.compile(
    r"(?:^|[^a-z0-9])"
    r"(?:vllm|sglang|trt-?llm|tensorrt[-_]?llm|tritonserver|lmdeploy|ollama|llama[.-]?cpp"
    r"|text-(?:generation|embeddings)-inference|mlc[-_]?llm|huggingfaceserver|xinference)"
    r"(?:$|[^a-z0-9])"
)
# NVIDIA NIM images carry a model's name instead of an engine's (docs.nvidia.com/nim).
_ENGINE_IMAGE_PREFIXES: Final = ("nvcr.io/nim/",)
# Ray serves models, and whoever reaches its head runs code (docs.ray.io/en/latest/ray-security).
_RAY_IMAGE: Final = re.compile(r"(?:.*/)?rayproject/ray(?:-[a-z0-9]+)?")
_RAY_LABEL: Final = "ray.io/node-type"
_ENGINE_COMMAND: Final = re.compile(
    r"(?:^|[^\w-])"
    r"(?:trtllm-serve|trtllm-llmapi-launch|vllm\s+serve|vllm\.entrypoints|sglang\s+serve"
    r"|sglang\.launch_server|tritonserver|text-generation-launcher|lmdeploy\s+serve|ollama\s+serve"
    r"|ray\s+start|serve\s+run)"
    r"(?![\w-])"
)
# nvidia.com/gpu, time-sliced nvidia.com/gpu.shared, and nvidia.com/mig-1g.10gb
# (github.com/NVIDIA/k8s-device-plugin); other makers' as their device plugins name them.
_GPU_RESOURCE: Final = re.compile(
    r"nvidia\.com/(?:gpu|mig-).*|amd\.com/gpu.*|gpu\.intel\.com/.*|habana\.ai/gaudi"
    r"|google\.com/tpu|aws\.amazon\.com/neuron.*"
)

# Why something is taken for an engine; UNKNOWN: it may be one; None: nothing says that it is.
Evidence = str | Unknown | None


def names_an_engine(text: str) -> bool:
    """Return whether a name or label value speaks of an engine, as ``vllm-llama`` does."""
    return _ENGINE_WORD.search(text.lower()) is not None


def in_pod(pod: PodSpec) -> Evidence:
    """Return why a pod is an engine, by label, image, command or GPU."""
    role = peek(pod.labels, ROLE)
    if role == ENGINE:
        return f"its label {ROLE} is {ENGINE}"
    named = in_labels(pod.labels)
    if isinstance(named, str):
        return f"its label {named}"
    unknown = role is UNKNOWN or any(listed is UNKNOWN for _, listed in pod.lists())
    for _, container in pod.containers():
        why = _in_container(container)
        if isinstance(why, str):
            return why
        unknown = unknown or why is UNKNOWN
    unknown = unknown or any(e is UNKNOWN for _, listed in pod.lists() for _, e in elements(listed))
    return UNKNOWN if unknown else None


def in_labels(labels: Value) -> Evidence:
    """Return why what carries or is selected by these labels is an engine."""
    if not is_body(labels):
        return UNKNOWN if labels is UNKNOWN else None
    role = labels.get(ROLE)
    if isinstance(role, str):  # another role's labels may well speak of engines
        return f"{ROLE} is {ENGINE}" if role == ENGINE else None
    if isinstance(labels.get(MODEL), str):
        return f"{MODEL} names a model"
    if isinstance(labels.get(_RAY_LABEL), str):
        return f"{_RAY_LABEL} is Ray's"
    for key, value in labels.items():
        if isinstance(value, str) and names_an_engine(value):
            return f"{key} names an engine"
    return UNKNOWN if role is UNKNOWN else None


def on_port(port: Value) -> Evidence:
    """Return whose port this is if an engine's."""
    if port is UNKNOWN:
        return UNKNOWN
    known = number(port)
    return f"port {known} is that of {PORTS[known]}" if known in PORTS else None


def is_management(port: Value) -> str | None:
    """Return why a port, by number or name, is one that manages or measures something."""
    known = number(port)
    if known in MANAGEMENT_PORTS:
        return f"port {known} is {MANAGEMENT_PORTS[known]}"
    named = isinstance(port, str) and _MANAGEMENT_WORD.search(port.lower()) is not None
    return f"its port is called {port}" if named else None


def _in_container(container: Body) -> Evidence:
    image = container.get("image")
    if isinstance(image, str) and _is_engine_image(image):
        return "it runs an engine's image"
    if _ENGINE_COMMAND.search(_command_line(container)):
        return "it runs an engine's command"
    if _asks_for_gpus(container):
        return "it asks for GPUs"
    return UNKNOWN if image is UNKNOWN else None


def _is_engine_image(text: str) -> bool:
    try:
        name = parse_image(text).name
    except ImageError:
        name = text
    ray = _RAY_IMAGE.fullmatch(name) is not None
    return ray or name.startswith(_ENGINE_IMAGE_PREFIXES) or names_an_engine(name)


def _command_line(container: Body) -> str:
    words = [*elements(container.get("command")), *elements(container.get("args"))]
    return " ".join(word for _, word in words if isinstance(word, str))


def _asks_for_gpus(container: Body) -> bool:
    return any(
        _GPU_RESOURCE.fullmatch(key)
        for kind in ("limits", "requests")
        if is_body(asked := peek(container, "resources", kind))
        for key, amount in asked.items()
        if number(amount) != 0
    )
