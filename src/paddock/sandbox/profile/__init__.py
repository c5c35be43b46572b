"""What is asked: profiles as people write them, and what their entries grant."""
