"""How many examples Hypothesis tries of a property: few in `make test`, all in `make release`."""

from __future__ import annotations

import hypothesis

#: The profiles of `pytest --hypothesis-profile NAME`, the first one by default.
QUICK, FULL = "quick", "full"
_FEW = 30

# How long an example takes says how busy the machine is: no deadline.
hypothesis.settings.register_profile(QUICK, deadline=None, max_examples=_FEW)
hypothesis.settings.register_profile(FULL, deadline=None)


def tries(most: int) -> int:
    """The examples of a property that needs so many in `make release`."""
    return most if hypothesis.settings.get_current_profile_name() == FULL else min(most, _FEW)
