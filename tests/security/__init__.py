"""What somebody may try who wants the server to fall over, or who cannot help it."""
