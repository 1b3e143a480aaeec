//! Which kelvin this is.

/// The version from Cargo.toml.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that was built, with `-dirty` where sources differed from it; "unknown" outside a repository.
pub const COMMIT: &str = env!("KELVIN_COMMIT");

/// Version and commit of this kelvin.
pub fn this_kelvin() -> String {
    format!("{VERSION} ({COMMIT})")
}
