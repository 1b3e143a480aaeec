//! The Concrete table, carried inside the library so that a first run needs no file (see `assets/README.md`).

/// Concrete Compressive Strength (I-C. Yeh 1998, CC BY 4.0): 1,030 rows, eight features, `compressive_strength`.
pub(super) const CONCRETE_CSV: &str = include_str!("../../assets/concrete.csv");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Table;

    #[test]
    fn is_the_table_its_documentation_describes() {
        let table = Table::from_bytes("concrete", CONCRETE_CSV.as_bytes()).unwrap();
        assert_eq!((table.num_rows(), table.columns().len()), (1030, 9));
        let strength = table.numbers(table.column("compressive_strength").unwrap()).unwrap();
        let mean = strength.iter().sum::<f64>() / strength.len() as f64;
        assert!((mean - 35.818).abs() < 5e-4, "mean {mean}");
        assert_eq!(strength.iter().copied().fold(f64::INFINITY, f64::min), 2.33);
        assert_eq!(strength.iter().copied().fold(f64::NEG_INFINITY, f64::max), 82.6);
    }
}
