"""Actors of exec-server, one folder each, and the two rooms below them: `engine` and `system`."""
