//! Command lines that errors and scripts name, as a shell reads them.

use std::path::Path;

/// A text as one word of a shell: in quotes where it has spaces or anything that a shell would read.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A path as one word of a shell.
pub fn path_word(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// The command line that resumes a run.
pub fn resume_command(run: &Path) -> String {
    format!("kelvin resume {}", path_word(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them() {
        for plain in ["/home/me/run-1", "a=b,c:d", "läufe/β"] {
            assert_eq!(shell_word(plain), plain);
        }
        assert_eq!(shell_word("it's mine"), r"'it'\''s mine'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(resume_command(Path::new("my run")), "kelvin resume 'my run'");
        for text in ["$(date)", "a;b", "`a`", "a\nb", "~", "*", "a\\b", "!", "#", "&", "\"", "(", "<", "|"] {
            assert_eq!(shell_word(text), format!("'{text}'"));
        }
    }
}
