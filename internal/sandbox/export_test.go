package sandbox

// RemoveFlat is tested by itself: as root a plain removal rarely fails.
func RemoveFlat(dir string) error { return removeFlat(dir) }
