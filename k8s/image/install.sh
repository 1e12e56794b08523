#!/bin/sh
# Installs inductord into a prefix: what both Dockerfiles do, and what a test does where there is no container engine.
#
#   install.sh full|slim PREFIX PYTHON SOURCE DRIVERS [EXTRAS]
#
# full: on top of PYTHON's packages, of which torch stays as it is: daemon, workers, ranks.
# slim: the daemon and the command line without torch, enough where Ray compiles.
# SOURCE: a checkout. Versions are those of its requirements.lock. DRIVERS: packages of fsspec for a shared store, may be empty.
# EXTRAS: parts of inductord; all that a cluster may use when absent.
set -eu
kind=$1 prefix=$2 python=$3 source=$4 drivers=$5
extras=${6:-daemon,ray,shared,otel}
here=$(dirname "$0")

case $kind in
full) "$python" -m venv --system-site-packages "$prefix" ;;
slim) "$python" -m venv "$prefix" ;;
*)
    echo "install.sh: full or slim, not $kind" >&2
    exit 2
    ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# torch comes with the image or not at all; pip needs no opinion of it.
grep -v '^torch==' "$source/requirements.lock" >"$work/constraints.txt"
"$python" "$here/requirements.py" "$source/pyproject.toml" "$extras" >"$work/requirements.txt"
printf '%s\n' $drivers >>"$work/requirements.txt"
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=${PIP_NO_CACHE_DIR-1} PIP_ROOT_USER_ACTION=ignore
export PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR PIP_ROOT_USER_ACTION
"$prefix/bin/pip" install --quiet --constraint "$work/constraints.txt" --requirement "$work/requirements.txt"
"$prefix/bin/pip" install --quiet --no-deps "$source"
"$prefix/bin/inductord" --version
