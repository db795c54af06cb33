#!/bin/sh
# Looks for programs that POSIX has dropped.
set -u
cd "$(dirname "$0")/.."
if grep -nwE 'egrep|fgrep' bin/*.sh; then
	echo "use grep -E and grep -F: the other two names are gone from POSIX, and newer systems warn or lack them"
	exit 1
fi
echo "no obsolete programs"
