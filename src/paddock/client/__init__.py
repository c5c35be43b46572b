"""The client: one connection to a server, and the processes that were started over it.

`connect` is the way in. Nothing is imported here, so that `import paddock` stays
cheap.
"""
