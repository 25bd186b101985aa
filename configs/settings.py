"""ReFrame's site configuration, assembled from configs/systems/*/.

Found through RFM_CONFIG_FILES, which activate.sh sets.
"""

import os
import sys

from reframe.core.exceptions import ConfigError

from railgauge import paths, systems
from railgauge.checks.framework import reframe_guard
from railgauge.common.errors import RailgaugeError
from railgauge.model import references
from railgauge.systems import reframe_settings, rehearsal

# A check file that fails to import would otherwise leave a warning and a pass.
os.environ["RFM_WARN_AS_ERROR"] = "1"
# ReFrame 4.11 can name folders by the test and its parameters: `Path%sweep=ns`. Slurm takes `%s` in
# the path of a job's output for a pattern.
os.environ["RFM_STAGEDIR_HASHES"] = "1"
reframe_guard.install()


def this_system() -> str:
    """ReFrame's way to learn where it is; an unknown host is an error, never `generic`."""
    try:
        return systems.current()
    except RailgaugeError as error:
        print(f"railgauge: {error}", file=sys.stderr)
        raise


try:
    scenario = rehearsal.scenario()
except RailgaugeError as error:
    raise ConfigError(str(error)) from None
if scenario is not None and paths.campaign_folder() is None:
    raise ConfigError(
        f"{rehearsal.VARIABLE} is set: a rehearsal's numbers must not come where measurements are; "
        "next: railgauge rehearse SYSTEM"
    )

try:
    paths.session_folder().mkdir(parents=True, exist_ok=True)
    for name in systems.of_session():
        references.load(name)
    site_configuration = reframe_settings.site_configuration()
except (RailgaugeError, OSError) as error:
    raise ConfigError(str(error)) from None
