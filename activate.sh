# shellcheck shell=bash
# source activate.sh: puts Railgauge's commands on the path, and ReFrame's configuration in place.
# On a host that no configs/systems/*/reframe.yaml names, set RFM_SYSTEM first.
RAILGAUGE_HOME=$(cd -- "$(dirname -- "${BASH_SOURCE[0]:-$0}")" && pwd)
export RAILGAUGE_HOME
export PATH="$RAILGAUGE_HOME/bin:$PATH"
# The colon drops ReFrame's own chain of configurations, `generic` with it; a missing file is an error.
export RFM_CONFIG_FILES=":$RAILGAUGE_HOME/configs/settings.py"
if [[ ! -x $RAILGAUGE_HOME/.venv/bin/python ]]; then
  echo "railgauge: next: make -C $RAILGAUGE_HOME setup" >&2
fi
