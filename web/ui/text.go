package ui

import "strings"

// Head is the first twelve characters of a digest, without its algorithm prefix.
func Head(digest string) string {
	if _, rest, ok := strings.Cut(digest, ":"); ok {
		digest = rest
	}
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}

func noticeIcon(tone Tone) Icon {
	switch tone {
	case ToneNeutral, ToneRunning, ToneQueued:
		return IconInfo
	case ToneWaiting:
		return IconWarning
	default:
		return toneIcon(tone)
	}
}
