// Package rig sets up the whole product for end-to-end tests: a private database, the real server on a real listener,
// the provider of sample people, a local forge, and the real worker as a process of its own.
//
// It owns short cuts through set-up (a worker's credential, a policy document and times that tests can wait for) and
// refuses short cuts through the product: people sign in by code and PKCE, ask and decide by the forms that a browser
// without JavaScript sends, and every test ends by replaying every run (R-TRN-3). No binary links it.
//
// A package with such tests has
//
//	func TestMain(m *testing.M) { rig.Main(m) }
package rig
