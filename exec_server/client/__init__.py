"""The Python client: sessions on a server elsewhere or in this process, and handles of the processes in them.

connect_*        ways to a server: websocket, stdio, in_process, local_server
  └─ client      ExecServerClient: starts, lists and runs
       ├─ process    Process: a handle; streams, event_buffer, text are what it is read with
       │    └─ feed      which events of a process have come, and what is missing; pure
       ├─ other_session  the processes of another session; poller reads their events
       └─ session    one session over any number of connections: resumes, sends again
            ├─ calls     requests without an answer, and which may be sent again; pure
            └─ channel   one connection: wire (a link and an encoding), or actor messages in this process
"""
