// Package egress makes every HTTP client of the product, so that no address that somebody configured, published in a
// provider's description or put into a name server leads a call into the network that the server stands in.
//
// It owns which addresses are closed, what an administrator opened, and how an address is read. The check is made on the
// address that a connection is really opened to, after the name was resolved, so that a name which answers one thing when
// it is looked at and another when it is used gains nothing. It refuses redirects, proxies from the environment, TLS
// below 1.2 and answers without an end, and to know what a call is for.
package egress
