"""The Linux sandbox: a command gets exactly the files, network and kernel that its profile grants."""
