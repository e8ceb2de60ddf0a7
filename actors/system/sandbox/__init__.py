"""The managed sandbox: what the entries of a request come to here, and the bubblewrap command that enforces it.

errors         what is refused, and why
rules          paths and what may be done there; pure
places         entries of the wire -> rules, by a look at the file system
bubblewrap     rules -> the arguments of bwrap(1); pure
seccomp        the filter for system calls that no mount can stop; pure
probe          whether bwrap works on this machine
mount_points   directories that stand where nothing may be made
enclosure      a sandbox ready to start a command in
entrance       what runs first inside: the program is executed, or the failure told
denial         whether output tells of a denial; pure
file_request   one file request, carried out by a helper inside
"""
