// Package wire holds the bodies and the client of the JSON API, generated from api/openapi.yaml with
// api/oapi-wire.yaml. It owns the shape of what crosses the network and refuses everything else: no rule,
// no state machine, no conversion to domain types. Absent optional members are zero values.
package wire
