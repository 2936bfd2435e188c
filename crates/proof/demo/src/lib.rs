//! Library behind the demo: a database living on the array, cloned, killed and recovered.
