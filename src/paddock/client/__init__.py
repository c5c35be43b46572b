"""The client: one connection to a server, and the processes started over it.

`connect` is the way in. This module imports nothing, so that `import paddock` stays cheap.
"""
