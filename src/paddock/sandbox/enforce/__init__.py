"""Carries out plans: translates them for bubblewrap and paddock-init, keeps what they need on the host."""
