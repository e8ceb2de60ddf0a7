"""Ground that all actors share: their base class, their messages, settings, deadlines."""
