"""The process engine: spawning, streams, retained output, groups. It does not know the wire."""
