"""Carries out plans: translates them for bubblewrap and paddock-init, and keeps what both need."""
