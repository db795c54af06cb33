#!/bin/sh
# Says whether every line of a file of orders is whole: number, name, amount, state.
set -eu
file=$1

if bad=$(egrep -v '^(#|$)' "$file" | egrep -nv '^[0-9]+,[^,]+,[0-9]+(\.[0-9][0-9])?,(new|paid|shipped|refunded)$'); then
	echo "damaged lines:"
	echo "$bad"
	exit 1
fi
echo "every line is whole"
