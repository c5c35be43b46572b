"""The wire: envelope, limits, parameter and result types, and the one table of methods.

Nothing here does I/O or keeps state.
"""
