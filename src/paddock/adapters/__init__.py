"""One thin module for each agent framework, behind an extra of its name, which it imports."""
