"""One thin module for each agent framework, which it imports; install the extra of the same name."""
