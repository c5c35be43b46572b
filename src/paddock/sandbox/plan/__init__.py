"""Plans: turns a profile and the facts of a host into mounts, rules and filters. Pure."""
