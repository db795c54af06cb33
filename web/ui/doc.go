// Package ui owns the components every page is built from: the document, icons, the one status vocabulary, times,
// facts, forms and banners. It knows words and shapes, never routes, requests or the domain, and it refuses raw HTML:
// everything it is given is text and is escaped.
package ui
