"""The real Codex CLI as a client of an exec-server: `python -m tests.real_client`.

Each scenario runs `codex exec` with a scripted model behind it (`model`), through a proxy that records the
connection and can cut it (`proxy`), in folders of its own (`play`). All of it stays on 127.0.0.1; the server must
see the same files. Any exec-server can be the one under test, see `--server-url`.
"""
