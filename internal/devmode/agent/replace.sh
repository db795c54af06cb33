# The sample agent of dev mode: a codemod that needs no model and no network. It understands sentences of the form
#
#   Replace `old` by `new` in `pattern`.
#
# (the pattern may be left out) in the goal, and in what reviewers answer when they request changes. It speaks the
# protocol of command agents: SIGNALBOX_PHASE says what is asked, file descriptor 3 takes structured lines.
set -eu

say() { printf '%s\n' "$1" >&3; }

# quoted prints its argument as a JSON string; its lines are joined, control characters become blanks.
quoted() {
	printf '"%s"' "$(printf '%s' "$1" | tr '\000-\037' ' ' | sed 's/\\/\\\\/g; s/"/\\"/g')"
}

# asked prints the goal and, decoded, the messages of the feedback.
asked() {
	cat "$SIGNALBOX_INPUT/goal.md"
	echo
	if [ -f "$SIGNALBOX_INPUT/feedback.json" ]; then
		sed -n 's/^ *"message": "\(.*\)",\{0,1\}$/\1/p' "$SIGNALBOX_INPUT/feedback.json" |
			sed 's/\\n/\n/g; s/\\t/ /g; s/\\"/"/g; s/\\u003c/</g; s/\\u003e/>/g; s/\\u0026/\&/g; s/\\\\/\\/g'
	fi
}

# rules prints one line for each sentence: old, new and pattern, separated by tabs.
rules() {
	asked | awk '{
		line = $0
		while (match(line, /[Rr]eplace `[^`]+` (by|with) `[^`]*`( in `[^`]+`)?/)) {
			rule = substr(line, RSTART, RLENGTH)
			line = substr(line, RSTART + RLENGTH)
			n = split(rule, part, "`")
			printf "%s\t%s\t%s\n", part[2], part[4], (n >= 7 ? part[6] : "*")
		}
	}' | awk '!seen[$0]++'
}

# files prints the text files that match a pattern and hold a text.
files() {
	find . -type f ! -path './.git/*' | sed 's|^\./||' | sort | while IFS= read -r file; do
		# The pattern is meant as one, so it stays unquoted.
		case "$file" in $2) grep -qIF -- "$1" "$file" && printf '%s\n' "$file" ;; esac
	done || true
}

# rewrite prints a file with OLD replaced by NEW; a whole word is only replaced where it stands alone.
rewrite() {
	OLD=$1 NEW=$2 awk '
		BEGIN { old = ENVIRON["OLD"]; new = ENVIRON["NEW"]; size = length(old); word = (old ~ /^[A-Za-z0-9_]+$/) }
		{
			done = ""; rest = $0; before = ""
			while ((at = index(rest, old)) > 0) {
				left = (at > 1) ? substr(rest, at - 1, 1) : before
				right = substr(rest, at + size, 1)
				if (word && (left ~ /[A-Za-z0-9_]/ || right ~ /[A-Za-z0-9_]/)) done = done substr(rest, 1, at + size - 1)
				else done = done substr(rest, 1, at - 1) new
				before = substr(rest, at + size - 1, 1)
				rest = substr(rest, at + size)
			}
			print done rest
		}' "$3"
}

tab=$(printf '\t')
todo=$(rules)
say '{"type":"started","model":"none: a codemod"}'

# Without a plan nothing goes on, and claiming that nothing needs a change would pass for success: it says why it cannot.
if [ -z "$todo" ] && [ "$SIGNALBOX_PHASE" = plan ]; then
	say '{"type":"result","reason":"refused","summary":"This sample agent has no model. It understands only goals that hold a sentence of the form: Replace `old` by `new` in `pattern`."}'
	exit 0
fi

if [ -z "$todo" ]; then
	say '{"type":"no_change","reason":"The goal holds no sentence of the form: Replace `old` by `new` in `pattern`."}'
	exit 0
fi

if [ "$SIGNALBOX_PHASE" = plan ]; then
	paths='' steps=''
	while IFS="$tab" read -r old new pattern; do
		found=$(files "$old" "$pattern")
		[ -n "$found" ] || found=$pattern
		while IFS= read -r file; do paths="$paths${paths:+,}$(quoted "$file")"; done <<FILES
$found
FILES
		steps="$steps${steps:+,}$(quoted "Replace $old by $new in $pattern")"
	done <<RULES
$todo
RULES
	say "{\"type\":\"plan\",\"plan\":{\"summary\":\"Replace texts file by file, nothing else.\",\"files\":[$paths],\"verifiers\":[\"the verification commands of the repository\"],\"risks\":[\"A text that only looks the same is replaced too; the diff shows every place.\"],\"stop_condition\":\"No file that matches holds the old text any more.\",\"forbidden_changes\":[],\"steps\":[$steps]}}"
	exit 0
fi

changed=0 call=0
while IFS="$tab" read -r old new pattern; do
	say "{\"type\":\"step\",\"status\":\"started\",\"title\":$(quoted "Replace $old by $new in $pattern")}"
	found=$(files "$old" "$pattern")
	while IFS= read -r file; do
		[ -n "$file" ] || continue
		call=$((call + 1))
		say "{\"type\":\"tool_started\",\"call_id\":\"edit-$call\",\"name\":\"replace\",\"kind\":\"edit\",\"input\":$(quoted "$file")}"
		rewrite "$old" "$new" "$file" >"$HOME/rewritten"
		if cmp -s "$HOME/rewritten" "$file"; then
			say "{\"type\":\"tool_finished\",\"call_id\":\"edit-$call\",\"status\":\"ok\",\"output\":\"unchanged\"}"
		else
			cat "$HOME/rewritten" >"$file"
			changed=$((changed + 1))
			echo "changed $file"
			say "{\"type\":\"tool_finished\",\"call_id\":\"edit-$call\",\"status\":\"ok\",\"output\":\"changed\"}"
		fi
	done <<FILES
$found
FILES
	say "{\"type\":\"step\",\"status\":\"done\",\"title\":$(quoted "Replace $old by $new in $pattern")}"
done <<RULES
$todo
RULES
rm -f "$HOME/rewritten"
say "{\"type\":\"result\",\"summary\":\"Made $changed edits.\"}"
