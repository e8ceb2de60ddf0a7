"""The server program: its settings, its life, what it shows to those who watch over it."""
