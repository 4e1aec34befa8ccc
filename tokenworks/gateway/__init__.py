"""The gateway's surroundings on one machine: engines that are simulated, everything else real."""
