"""What a host has to offer to agents: settings, skills and plugins, found where Codex keeps them."""
