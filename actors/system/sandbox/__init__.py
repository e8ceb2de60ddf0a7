"""The managed sandbox: what the entries of a request come to here, and the bubblewrap command that enforces it.

errors         what is refused, and why
rules          paths and what may be done there; pure
resolve        entries of the wire -> rules, by a look at the file system
bubblewrap     rules -> the arguments of bwrap(1); pure
seccomp        the filter for system calls that no mount can stop; pure
probe          whether bwrap works on this machine
mount_points   directories that stand where nothing may be made
spec           a sandbox ready to start a command in
sandbox_launcher  the way in: bwrap, and inside a launcher that becomes the command or tells why not
denial         whether output tells of a denial; pure
"""
