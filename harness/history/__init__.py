"""Prompts of all threads and all running agents of a user, in one file.

record    a record and its line; what a trim drops; the identity of a log. Pure
storage   the file under its lock: append and trim
reading   lines of the file, from its end; in bounded memory
log       HistoryLog: all of it for a program with an event loop
recall    Recall: the keys Up and Down. Pure
"""
