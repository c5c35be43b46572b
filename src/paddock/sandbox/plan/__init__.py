"""What will be done: a profile and the facts of a host become mounts, rules and filters. Pure."""
