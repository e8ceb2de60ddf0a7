"""How Hypothesis runs here: no verdict hangs on how fast the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("here")
