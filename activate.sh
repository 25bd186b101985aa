# shellcheck shell=bash
# source activate.sh: puts Railgauge's commands on the path, and ReFrame's configuration in place.
# On a host that no configs/systems/*/reframe.yaml names, set RFM_SYSTEM first.
RAILGAUGE_HOME=$(cd -- "$(dirname -- "${BASH_SOURCE[0]:-$0}")" && pwd)
export RAILGAUGE_HOME
export PATH="$RAILGAUGE_HOME/bin:$PATH"
# The colon drops ReFrame's own chain of configurations, `generic` with it; a missing file is an error.
export RFM_CONFIG_FILES=":$RAILGAUGE_HOME/configs/settings.py"
# The tools that `make stack` built for this system, if it did.
_railgauge_stack=${RAILGAUGE_STACK_DIR:-$RAILGAUGE_HOME/.stack}/${RAILGAUGE_SYSTEM:-${RFM_SYSTEM:-none}}
_railgauge_stack=${_railgauge_stack%%:*}/activate.sh
if [[ -r $_railgauge_stack ]]; then
  # shellcheck disable=SC1090
  source "$_railgauge_stack"
fi
unset _railgauge_stack
# In a shell of its own: this one may be another than bash, and shall keep no function of ours.
bash -c 'source "$1/bin/venv.sh"; require_venv railgauge "$1"' bash "$RAILGAUGE_HOME" || true
