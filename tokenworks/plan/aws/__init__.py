"""What is decided about AWS: plain data, without Pulumi and without the network."""
