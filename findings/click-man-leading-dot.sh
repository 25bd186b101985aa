#!/bin/bash
# click-man writes a line that begins with a dot as a request of roff: the manual page lacks the sentence.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
pypi click-man==0.6.0 click==8.5.1 setuptools==80.9.0 wheel==0.45.1
debian groff-base=1.22.4-10

cat >app.py <<'X'
import click


@click.command()
def app():
    """Fetch a file.

    .netrc must name the server.
    """
X
cat >setup.py <<'X'
from setuptools import setup

setup(name="app", py_modules=["app"], entry_points={"console_scripts": ["app = app:app"]})
X
"$WORK/python/bin/pip" --quiet --disable-pip-version-check install --no-build-isolation .
"$WORK/python/bin/click-man" app >/dev/null
groff=$WORK/debian/usr/share/groff/1.22.4
page=$(GROFF_FONT_PATH=$groff/font GROFF_TMAC_PATH=$groff/tmac groff -man -T ascii man/app.1 2>/dev/null)
shown() { grep --quiet netrc && echo yes || echo no; }
in_help=$("$WORK/python/bin/app" --help | shown)
in_page=$(shown <<<"$page")

finding \
  'the sentence about .netrc is in the help and in the manual page' \
  'in the help: yes, in the manual page: no' \
  "in the help: $in_help, in the manual page: $in_page"
