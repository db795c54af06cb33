package rig

import (
	"encoding/json"
	"strings"
)

// Act is one action of the scripted agent; its fields have the meaning that command testagent gives them.
type Act struct {
	Do   string `json:"do"`
	When string `json:"when,omitempty"`
	File string `json:"file,omitempty"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
	Name string `json:"name,omitempty"`
	N    int    `json:"n,omitempty"`
}

// recipeMark begins the line of a goal that the scripted agent follows. A goal without one makes it fail.
const recipeMark = "recipe: "

// Recipe is a goal in words with what the scripted agent is to do about it.
func Recipe(words string, acts ...Act) string {
	raw, err := json.Marshal(acts)
	if err != nil {
		// Actions are strings and numbers.
		panic(err)
	}
	return words + "\n\n" + recipeMark + string(raw)
}

// Await holds the agent until the test calls Rig.Signal with the same name.
func Await(name string) Act { return Act{Do: "await", File: name} }

// scripted is the agent profile "default".
func scripted(r *Rig) Agent {
	const script = `recipe=$(sed -n 's/^recipe: //p' "$SIGNALBOX_INPUT/goal.md"); exec "$TESTAGENT" "$recipe"`
	return Agent{
		Argv: []string{"sh", "-c", strings.TrimSpace(script)}, Plan: "auto", Wall: "2m", Grace: "1s",
		Env:    map[string]string{"TESTAGENT": "/opt/testagent", "TESTAGENT_SIGNALS": "/opt/signals"},
		Mounts: []Mount{{Binary(r.T, "internal/agent/testagent"), "/opt/testagent"}, {r.path("signals"), "/opt/signals"}},
	}
}
