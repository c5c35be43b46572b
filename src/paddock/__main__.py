"""`python -m paddock`."""

from paddock.cli.main import run_and_end

run_and_end()
