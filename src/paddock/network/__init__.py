"""The policy proxy: decides by name which hosts a command reaches."""
