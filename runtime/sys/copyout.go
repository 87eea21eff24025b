package sys

// CopyOut is copy, for memory that another CPU has read and will read next, such as a slot of a
// ring in shared memory. Where it pays it writes whole cache lines without fetching them first:
// between cores with caches of their own that takes half of the time. The stores come before
// each store that follows the call.
func CopyOut(dst, src []byte) int {
	if n := min(len(dst), len(src)); n >= farMin {
		return copyFar(dst[:n], src[:n])
	}
	return copy(dst, src)
}
