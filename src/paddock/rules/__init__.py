"""Rules that people can read decide what a command may do.

`loader` turns files into a `policy`, which decides; `source` keeps one up to date;
`amendment` adds to a file; `script` finds the programs in a shell script.
"""
