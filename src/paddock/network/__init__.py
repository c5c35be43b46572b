"""The policy proxy: what a command reaches of the network, by name."""
