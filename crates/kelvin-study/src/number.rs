//! Numbers as a reader likes them: a true minus sign, thin spaces between thousands, powers of ten as superscripts.

/// A number with a fixed count of decimals: `−0.30`, `12 500`.
pub fn fixed(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = plain.split_once('.').map_or((plain.as_str(), None), |(w, f)| (w, Some(f)));
    let is_zero = plain.chars().all(|c| c == '0' || c == '.');
    let mut text = String::from(if value < 0.0 && !is_zero { "−" } else { "" });
    for (place, digit) in whole.chars().enumerate() {
        let remaining = whole.len() - place;
        if place > 0 && whole.len() > 4 && remaining % 3 == 0 {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// A number with about so many significant digits and no trailing zeros: `0.3`, `−3.904`, `1.2×10⁻⁵`.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !value.is_finite() {
        return if value.is_nan() { "not a number".into() } else { if value > 0.0 { "∞" } else { "−∞" }.into() };
    }
    // The exponent after rounding, so that 9.996 becomes 10 and not 10.00.
    let rounded: f64 = format!("{:.*e}", digits.max(1) - 1, value).parse().unwrap_or(value);
    let exponent = rounded.abs().log10().floor() as i32;
    if (-4..6).contains(&exponent) {
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        return trim(&fixed(rounded, decimals));
    }
    let mantissa = trim(&fixed(rounded / 10f64.powi(exponent), digits.max(1) - 1));
    match mantissa.as_str() {
        "1" => format!("10{}", superscript(exponent)),
        "−1" => format!("−10{}", superscript(exponent)),
        _ => format!("{mantissa}×10{}", superscript(exponent)),
    }
}

fn trim(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text.into() }
}

fn superscript(exponent: i32) -> String {
    exponent
        .to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '0' => '⁰',
            digit => char::from_u32(0x2070 + (digit as u32 - '0' as u32)).unwrap_or(digit),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_uses_a_true_minus_and_thin_spaces() {
        assert_eq!(fixed(-0.3, 2), "−0.30");
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(12500.0, 0), "12\u{2009}500");
        assert_eq!(fixed(1000.0, 0), "1000");
        assert_eq!(fixed(1234567.5, 1), "1\u{2009}234\u{2009}567.5");
    }

    #[test]
    fn significant_drops_what_says_nothing() {
        assert_eq!(significant(0.3, 3), "0.3");
        assert_eq!(significant(-3.9041, 4), "−3.904");
        assert_eq!(significant(9.996, 3), "10");
        assert_eq!(significant(0.0, 3), "0");
        assert_eq!(significant(1e-5, 3), "10⁻⁵");
        assert_eq!(significant(-3e7, 3), "−3×10⁷");
        assert_eq!(significant(1.25e-8, 3), "1.25×10⁻⁸");
        assert_eq!(significant(f64::NEG_INFINITY, 3), "−∞");
    }
}
