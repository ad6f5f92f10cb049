"""What the tests with drawn values have in common: a busy machine is no failure."""

from hypothesis import HealthCheck, settings

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
