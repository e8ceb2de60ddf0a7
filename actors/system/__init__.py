"""Operating system as the actors need it: children, files, sandboxes, HTTP, threads, a clock. No actor, no message."""
