"""Programs that use exec-server as its users do."""
