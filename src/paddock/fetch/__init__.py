"""HTTP requests that this host makes on behalf of a client."""
