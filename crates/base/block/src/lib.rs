//! The narrow waist: the BlockDevice trait that targets serve and the engine implements.
