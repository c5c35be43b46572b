"""Decides what becomes of each program that a confined command executes: run inside, outside, or denied."""
