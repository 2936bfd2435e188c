//! Drivers, executor and sockets, tried for real.
