"""The audit log: who had what started, and what became of it, in a chain of records that shows tampering."""
