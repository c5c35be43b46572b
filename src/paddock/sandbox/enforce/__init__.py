"""Doing it: plans in the words of bubblewrap and paddock-init, and what is kept on the host meanwhile."""
