package config

import "signalbox/internal/secret"

// Secret is a value that shows itself only to Reveal.
type Secret = secret.Value

// NewSecret is for values that come from elsewhere than the environment.
func NewSecret(value string) Secret { return secret.New(value) }
