"""The file engine: operations as values, and what carries them out, here or in a worker process."""
