"""The version of Paddock, and nothing else.

It is a module of its own so that `paddock --version` and the build backend can
read it without importing the rest of the package. It imports nothing.
"""

__version__ = "0.1.0"
