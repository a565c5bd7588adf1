package dehydrator

import (
	"math"
	"math/rand/v2"
	"time"
)

// RetryDelayFunc returns the delay after an attempt that failed with err: a negative one is none. The first attempt is 1.
type RetryDelayFunc func(attempt int, err error) time.Duration

// ExponentialBackoff returns delays that begin with first and double with each attempt, up to most. A random part of up
// to half is subtracted, so that tasks that failed together are not retried together.
func ExponentialBackoff(first, most time.Duration) RetryDelayFunc {
	return func(attempt int, _ error) time.Duration {
		wait := min(float64(most), float64(first)*math.Pow(2, float64(min(attempt-1, 64))))
		// A float64 of the longest duration is beyond it.
		return lessUpToHalf(time.Duration(min(max(0, wait), math.MaxInt64-1024)))
	}
}

func lessUpToHalf(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (1 - rand.Float64()/2))
}
