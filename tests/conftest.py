"""How hard hypothesis tries: repeatably on every change, at length and at random every night."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A red build must be the change's fault: the same examples every time, and no clock.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
# `pytest --hypothesis-profile=nightly`: fresh examples, so that many nights cover what one run cannot.
settings.register_profile(
    "nightly", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")
