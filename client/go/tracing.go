package acker

import "math"

const (
	markMask         = 0xffff
	sampleMultiplier = 2_654_435_761
)

// isTraced reports whether the acks of a root name their children: it may be traced by hand, or is in the share that
// every process traces, chosen by its id.
func isTraced(root id, share float64) bool {
	if root&markMask == 0 {
		return true
	}
	sample := uint32(root^root>>32) * sampleMultiplier
	return share > 0 && float64(sample) < math.Min(1<<32, math.Round(share*(1<<32)))
}

// mark turns a drawn root id into one that says that its root is traced by hand.
func mark(root id) id {
	if marked := root &^ markMask; marked != 0 {
		return marked
	}
	return markMask + 1
}
