//! Calls of Python from inside a sampler.
