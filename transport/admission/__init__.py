"""Admission: who may connect to a listener, before any request is served."""
