package handlers

import (
	"net/http"
	"strings"

	"signalbox/internal/policy"
)

// grantedBy names the groups whose members hold one of the roles, so that who lacks it knows whom to ask (A11). Somebody who has
// no role at all is told of no group.
func (s *server) grantedBy(r *http.Request, roles ...policy.Role) string {
	p := who(r)
	var groups []string
	if len(p.roles) > 0 {
		mappings, err := s.store.Mappings(r.Context(), p.tenant)
		if err != nil {
			s.note(r, err)
		}
		for _, m := range mappings {
			for _, role := range roles {
				for _, group := range m.Gives(role) {
					groups = append(groups, group+" at "+m.Name)
				}
			}
		}
	}
	if len(groups) == 0 {
		return "an administrator of your identity provider"
	}
	return "membership in the group " + strings.Join(groups, " or ")
}
