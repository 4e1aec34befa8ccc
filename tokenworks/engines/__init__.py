"""One module per engine: arguments, config file, ports, probes, metrics, memory law."""
