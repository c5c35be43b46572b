"""The server: sessions, requests and their handlers, and the composition of all engines."""
