#!/bin/sh
# Runs every test and says which failed.
set -u
cd "$(dirname "$0")/.."
failed=0

check() { # check NAME WANT GOT
	if [ "$2" = "$3" ]; then
		echo "ok    $1"
	else
		echo "FAIL  $1"
		printf 'want:\n%s\ngot:\n%s\n' "$2" "$3"
		failed=1
	fi
}

check "totals, largest first" "301.01 Edsger
139.50 Ada
42.25 Grace
5.00 Ada Jr." "$(sh bin/report.sh data/orders.csv 2>/dev/null)"

check "orders of one customer" "2,Grace,80.50,new
5,Grace,42.25,paid" "$(sh bin/find.sh data/orders.csv Grace 2>/dev/null)"

check "a name is no pattern" "8,Ada Jr.,5.00,paid" "$(sh bin/find.sh data/orders.csv 'Ada Jr.' 2>/dev/null)"
check "an unknown name" "no orders of A.a" "$(sh bin/find.sh data/orders.csv 'A.a' 2>/dev/null)"
check "a whole file" "every line is whole" "$(sh bin/check.sh data/orders.csv 2>/dev/null)"

# A larger file, so that the programs are tried on more than a page.
large=$(mktemp)
awk 'BEGIN { for (i = 1; i <= 20000; i++) printf "%d,Customer %d,1.00,%s\n", i, i % 100, (i % 2 ? "paid" : "new") }' >"$large"
check "a large file" "50" "$(sh bin/report.sh "$large" 2>/dev/null | wc -l | tr -d ' ')"
echo "9,Broken,1" >>"$large"
check "a damaged line is found" "20001:9,Broken,1" "$(sh bin/check.sh "$large" 2>/dev/null | tail -n 1)"
rm -f "$large"

exit $failed
