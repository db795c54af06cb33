package rig

import (
	"encoding/json"
	"slices"
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

// Follow is the shell script by which an agent follows the recipe, for profiles that differ from the default one in
// other things: Argv of `sh -c`.
const Follow = `recipe=$(sed -n 's/^recipe: //p' "$SIGNALBOX_INPUT/goal.md"); exec "$TESTAGENT" "$recipe"`

// scripted fills what an agent profile needs to follow recipes. The empty one is the profile "default".
func scripted(r *Rig, a Agent) Agent {
	if len(a.Argv) == 0 {
		a.Argv, a.Plan, a.Wall, a.Grace = []string{"sh", "-c", Follow}, "auto", "2m", "1s"
	}
	if slices.Contains(a.Argv, Follow) {
		a.Env = map[string]string{"TESTAGENT": "/opt/testagent", "TESTAGENT_SIGNALS": "/opt/signals"}
		a.Mounts = append(slices.Clone(a.Mounts), Mount{Binary(r.T, "internal/agent/testagent"), "/opt/testagent"}, Mount{r.path("signals"), "/opt/signals"})
	}
	return a
}
