"""How the property tests of pure modules run."""

from hypothesis import settings

settings.register_profile("unit", deadline=None)  # a busy machine is no fault
settings.load_profile("unit")
