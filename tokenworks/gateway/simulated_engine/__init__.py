"""An engine without a GPU: trtllm-serve's HTTP surface with settable speed, queue and faults.

Nothing but Python's standard library, so that it runs wherever Python 3.11 does, in a container
too: ``python -m tokenworks.gateway.simulated_engine --port 8000 --model llama``. Equal requests in
equal order get equal bytes.

Sources of the surface, read 2026-11-29: NVIDIA/TensorRT-LLM ``tensorrt_llm/serve/openai_server.py``
at 0005772 (routes, errors), ``openai_protocol.py`` at 0076e93 (fields), ``postprocess_handlers.py``
at 01bf192 (chunks), ``tensorrt_llm/metrics/collector.py`` at 050f80d (metrics).
"""
