# Sourced by the scripts of this folder: pinned packages in a temporary folder, and the verdict.
# shellcheck shell=bash

# Install "name=version" of Debian below $WORK/debian; nothing of the machine changes.
debian() {
  ran_inside && return
  mkdir "$WORK/archives"
  (cd "$WORK/archives" && apt-get -qq -o APT::Sandbox::User=root download "$@")
  for archive in "$WORK"/archives/*.deb; do dpkg-deb --extract "$archive" "$WORK/debian"; done
  echo "packages: $*"
}

# Install "name==version" of PyPI below $WORK/python.
pypi() {
  ran_inside && return
  python3 -m venv "$WORK/python"
  "$WORK/python/bin/pip" --quiet --disable-pip-version-check install "$@"
  echo "packages: $*"
}

# Run this script again in namespaces of its own: no port is taken, no process is left.
isolate() {
  # Some programs resolve names only where an address other than loopback is configured.
  ran_inside && ip link set lo up && ip address add 192.0.2.1/32 dev lo && return
  unshare --net --pid --fork --kill-child --mount-proc env "FINDING_FOLDER=$WORK" bash "$script"
  exit
}

ran_inside() { [ -n "$inside" ]; }

# finding EXPECTED STATED SEEN: end with 1 where the tool no longer does what is stated.
finding() {
  printf 'expected: %s\nseen:     %s\n' "$1" "$3"
  [ "$2" = "$3" ] && return
  printf 'changed:  this script states "%s"\n' "$2"
  exit 1
}

script=$(readlink -f "$0")
inside=${FINDING_FOLDER:-}
WORK=$inside
if ! ran_inside; then
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
fi
libraries=$WORK/debian/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$WORK/debian/lib/x86_64-linux-gnu PATH=$WORK/debian/usr/bin:$WORK/debian/usr/sbin:$PATH
cd "$WORK" || exit
