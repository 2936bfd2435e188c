//! One flash device or a file standing for one.
