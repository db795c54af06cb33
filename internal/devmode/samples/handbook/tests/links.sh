#!/bin/sh
# Checks that every link between pages leads to a page.
set -u
cd "$(dirname "$0")/../pages"
failed=0
for page in *.md; do
	for target in $(grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^\]\((.*)\)$/\1/'); do
		if [ ! -f "$target" ]; then
			echo "FAIL  $page leads to $target, which is not there"
			failed=1
		fi
	done
done
[ $failed -eq 0 ] && echo "every link leads somewhere"
exit $failed
