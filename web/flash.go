package web

import "signalbox/web/ui"

// Done is the trace of an action that worked, shown on the page that it led to.
func Done(title string) *Flash { return &Flash{Tone: ui.ToneDone, Title: title} }

// Noted is the trace of an action that changed nothing because nothing had to change.
func Noted(title string) *Flash { return &Flash{Tone: ui.ToneNeutral, Title: title} }
