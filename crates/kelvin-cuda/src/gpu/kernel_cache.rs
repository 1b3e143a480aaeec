//! Compiled kernels kept from run to run, in the user's cache folder.
//!
//! A file is named by the hash of all that its machine code depends on, and holds the hash of that code before it: what is
//! damaged is as good as missing. A cache that cannot be read or written is no error: kernels are compiled again.

use std::path::PathBuf;
use std::{env, fs};

use kelvin::write_file::write_atomically;
use sha2::{Digest, Sha256};

const HASH_BYTES: usize = 32;

/// A folder of compiled kernels.
pub(crate) struct KernelCache {
    folder: Option<PathBuf>,
    /// What kernels are compiled with and for.
    compiler: String,
}

impl KernelCache {
    /// The user's own: `KELVIN_CACHE`, else `kelvin/kernels` in `XDG_CACHE_HOME` or `~/.cache`; an empty `KELVIN_CACHE` is none.
    pub(crate) fn of_user(compiler: String) -> Self {
        let folder = match env::var_os("KELVIN_CACHE") {
            Some(folder) => (!folder.is_empty()).then(|| PathBuf::from(folder)),
            None => env::var_os("XDG_CACHE_HOME")
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from)
                .or_else(|| env::home_dir().map(|home| home.join(".cache")))
                .map(|folder| folder.join("kelvin/kernels")),
        };
        Self { folder, compiler }
    }

    fn file(&self, text: &str) -> Option<PathBuf> {
        let mut hash = Sha256::new();
        hash.update(&self.compiler);
        hash.update([0]);
        hash.update(text);
        Some(self.folder.as_ref()?.join(format!("{:x}.cubin", hash.finalize())))
    }

    /// The machine code of this text, if it is there and whole.
    pub(crate) fn read(&self, text: &str) -> Option<Vec<u8>> {
        let bytes = fs::read(self.file(text)?).ok()?;
        let (hash, code) = bytes.split_at_checked(HASH_BYTES)?;
        (hash == &Sha256::digest(code)[..]).then(|| code.to_vec())
    }

    /// Keeps the machine code of this text.
    pub(crate) fn write(&self, text: &str, code: &[u8]) {
        let Some(file) = self.file(text) else { return };
        let bytes = [&Sha256::digest(code)[..], code].concat();
        let written = fs::create_dir_all(file.parent().unwrap_or(&file)).and_then(|()| write_atomically(&file, &bytes));
        // Compiled again next time.
        written.ok();
    }

    /// Forgets what is no use.
    pub(crate) fn remove(&self, text: &str) {
        if let Some(file) = self.file(text) {
            fs::remove_file(file).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_is_found_again_and_what_is_damaged_is_not() {
        let folder = env::temp_dir().join(format!("kelvin-kernel-cache-{}", std::process::id()));
        let cache = |compiler: &str| KernelCache { folder: Some(folder.clone()), compiler: compiler.to_owned() };
        let (one, other) = (cache("NVRTC 13.0 sm_90"), cache("NVRTC 13.0 sm_80"));
        assert_eq!(one.read("text"), None);
        one.write("text", &[1, 2, 3]);
        assert_eq!(one.read("text"), Some(vec![1, 2, 3]));
        assert_eq!((one.read("other text"), other.read("text")), (None, None));

        let file = one.file("text").unwrap();
        for damaged in [&[][..], &[7; 10], &[fs::read(&file).unwrap(), vec![4]].concat()] {
            fs::write(&file, damaged).unwrap();
            assert_eq!(one.read("text"), None);
        }
        one.write("text", &[5]);
        assert_eq!(one.read("text"), Some(vec![5]));
        one.remove("text");
        assert_eq!(one.read("text"), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let cache = KernelCache { folder: None, compiler: String::new() };
        cache.write("text", &[1]);
        assert_eq!(cache.read("text"), None);
        let nowhere = KernelCache { folder: Some("/dev/null/nowhere".into()), compiler: String::new() };
        nowhere.write("text", &[1]);
        assert_eq!(nowhere.read("text"), None);
    }
}
