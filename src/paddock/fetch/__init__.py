"""HTTP requests that are made from this host for somebody else."""
