package local

// Grace is grace.
const Grace = grace
