"""Sans-I/O connection state: messages in, events and messages out. No clock, no socket, no tasks."""
