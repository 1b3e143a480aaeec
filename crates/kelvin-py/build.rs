//! Asks the linker to leave Python's symbols open, which macOS wants to be told.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
