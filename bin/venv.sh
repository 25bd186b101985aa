# shellcheck shell=bash
# Sourced by the commands next to it and by activate.sh.

# require_venv NAME HOME: 3 where this user cannot run the checkout's Python; NAME says why on
# standard error, and what to type.
require_venv() {
  local name=$1 home=$2 venv=$2/.venv python folder closed='' user why
  local quoted next made_for
  printf -v quoted %q "$home"
  next="make -C $quoted setup"
  if [[ -x $venv/bin/python ]]; then
    # A link, or a copy with its checkout, would run that of another one, and write there, unless
    # PYTHONPATH says otherwise.
    python=${PYTHONPATH:-}
    [[ ! ${python%%:*} -ef $home/src ]] || return 0
    for made_for in "$venv"/lib/python3*/site-packages/railgauge.pth; do
      [[ -r $made_for ]] || continue
      IFS= read -r made_for <"$made_for" || continue
      [[ ! $made_for -ef $home/src ]] || continue
      echo "$name: $venv is that of the checkout ${made_for%/src}, and this one is $home" >&2
      echo "  next: rm -r $quoted/.venv; $next" >&2
      return 3
    done
    return 0
  fi
  if [[ ! -e $venv ]]; then
    why="$venv is missing"
  else
    user=$(id -un 2>/dev/null || id -u)
    # Behind the links, also where this user may not look.
    python=$(readlink -m -- "$venv/bin/python")
    for ((folder = 1; folder < ${#python}; folder++)); do
      [[ ${python:folder:1} != / || ! -d ${python:0:folder} || -x ${python:0:folder} ]] ||
        closed=${closed:-${python:0:folder}}
    done
    why="$venv is there, but its Python, $python, "
    if [[ -n $closed ]]; then
      why+="cannot be run by $user, as that user may not enter $closed"
    elif [[ -e $python ]]; then
      why+="cannot be run by $user"
    else
      why+="is not on $(uname -n)"
    fi
    [[ -O $venv ]] ||
      next="$(stat -c %U -- "$venv") makes it again (rm -r $quoted/.venv; make -C $quoted setup) with a python3 for \
all users first on PATH; or, in a clone of your own: make setup"
  fi
  echo "$name: $why" >&2
  echo "  next: $next" >&2
  return 3
}
