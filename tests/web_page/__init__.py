"""The page of `exec-server serve --web`, without a browser: who gets in, and what is served."""
