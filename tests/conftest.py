"""What holds for every test."""

from hypothesis import settings

# No deadline: on a busy machine a slow example is no wrong one.
settings.register_profile("quick", deadline=None)
settings.register_profile("full", deadline=None, max_examples=1000)  # make test-full
settings.load_profile("quick")
