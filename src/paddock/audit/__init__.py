"""The audit log: who started what, and how it ended, in a chain of records that shows tampering."""
