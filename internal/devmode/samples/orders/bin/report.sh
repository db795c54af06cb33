#!/bin/sh
# Prints the total of each customer's paid orders, largest first.
set -eu
file=$1

egrep -v '^(#|$)' "$file" | egrep ',(paid|shipped)$' | awk -F, '
	{ total[$2] += $3 }
	END { for (name in total) printf "%.2f %s\n", total[name], name }
' | sort -rn
