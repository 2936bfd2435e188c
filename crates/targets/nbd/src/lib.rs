//! The NBD target.
