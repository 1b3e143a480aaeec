//! The kernels' sources, one `.cu` file an idea, compiled when they are first needed.
//!
//! A source is a file with its includes put in place and a line `#define NAME VALUE` for each of its sizes. Kernels use
//! no header of CUDA's, so that the compiler needs nothing but this text.

/// A kernel to be compiled: the file, its entry, and the sizes it is compiled for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSource {
    /// The file's name among [`FILES`], which is also the entry's name plus `.cu`.
    pub file: &'static str,
    /// The `__global__` function.
    pub entry: &'static str,
    /// Names and values that the file expects to be defined.
    pub defines: Vec<(&'static str, i64)>,
}

/// The files and their texts; `.cuh` are included by others.
pub const FILES: &[(&str, &str)] =
    &[("gpu.cuh", include_str!("../kernels/gpu.cuh")), ("philox.cuh", include_str!("../kernels/philox.cuh"))];

impl KernelSource {
    /// The whole text for a compiler.
    ///
    /// # Panics
    /// If a file or an included one is not among [`FILES`].
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.defines {
            text.push_str(&format!("#define {name} {value}\n"));
        }
        expand(self.file, &mut Vec::new(), &mut text);
        text
    }
}

/// Appends a file with each `#include "…"` replaced by that file, the first time it is named.
fn expand(file: &str, included: &mut Vec<String>, text: &mut String) {
    if included.iter().any(|name| name == file) {
        return;
    }
    included.push(file.to_owned());
    let (_, source) = FILES.iter().find(|(name, _)| *name == file).unwrap_or_else(|| panic!("no kernel file {file}"));
    text.push_str(&format!("#line 1 \"{file}\"\n"));
    for (number, line) in source.lines().enumerate() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(other) => {
                expand(other, included, text);
                text.push_str(&format!("#line {} \"{file}\"\n", number + 2));
            }
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
}
