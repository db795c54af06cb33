#!/bin/sh
# Prints the orders of one customer, whose name is taken as it stands and not as a pattern.
set -eu
file=$1
name=$2

egrep -v '^(#|$)' "$file" | fgrep ",$name," || echo "no orders of $name"
