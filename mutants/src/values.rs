//! What the body of a function may be replaced by: simple values of its return type.

use quote::ToTokens;
use syn::{GenericArgument, PathArguments, ReturnType, Type, TypePath};

/// Rust expressions; `None` where no value can be written, as for `impl Trait`.
pub fn of_return_type(output: &ReturnType) -> Option<Vec<String>> {
    match output {
        ReturnType::Default => Some(vec!["()".into()]),
        ReturnType::Type(_, kind) => of_type(kind),
    }
}

fn of_type(kind: &Type) -> Option<Vec<String>> {
    let default = || Some(vec!["Default::default()".to_owned()]);
    match kind {
        Type::Path(path) => of_path(path),
        Type::Paren(inner) => of_type(&inner.elem),
        Type::Array(array) => {
            let len = array.len.to_token_stream();
            Some(of_type(&array.elem)?.into_iter().map(|value| format!("[{value}; {len}]")).collect())
        }
        Type::Tuple(tuple) => {
            let mut rows = vec![Vec::new()];
            for element in &tuple.elems {
                let values = of_type(element)?;
                rows = rows
                    .iter()
                    .flat_map(|row| {
                        values.iter().map(move |value| [row.as_slice(), std::slice::from_ref(value)].concat())
                    })
                    .collect();
            }
            Some(rows.into_iter().take(12).map(|row: Vec<String>| format!("({})", row.join(", "))).collect())
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => Some(vec!["\"\"".into(), "\"xyzzy\"".into()]),
            Type::Slice(slice) => {
                let mut all = vec!["Vec::leak(Vec::new())".to_owned()];
                all.extend(of_type(&slice.elem)?.into_iter().map(|value| format!("Vec::leak(vec![{value}])")));
                Some(all)
            }
            Type::TraitObject(_) => None,
            other => Some(of_type(other)?.into_iter().map(|value| format!("Box::leak(Box::new({value}))")).collect()),
        },
        Type::ImplTrait(_) | Type::Never(_) | Type::TraitObject(_) | Type::Ptr(_) => None,
        _ => default(),
    }
}

fn of_path(path: &TypePath) -> Option<Vec<String>> {
    let last = path.path.segments.last()?;
    let inner: Vec<&Type> = match &last.arguments {
        PathArguments::AngleBracketed(given) => given
            .args
            .iter()
            .filter_map(|argument| if let GenericArgument::Type(kind) = argument { Some(kind) } else { None })
            .collect(),
        _ => Vec::new(),
    };
    let strings = |values: &[&str]| Some(values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>());
    let wrapped = |before: &str, after: &str| {
        let values = inner.first().map_or_else(|| strings(&["Default::default()"]), |kind| of_type(kind))?;
        Some(values.into_iter().map(|value| format!("{before}{value}{after}")).collect::<Vec<_>>())
    };
    match last.ident.to_string().as_str() {
        "bool" => strings(&["true", "false"]),
        "String" => strings(&["String::new()", "\"xyzzy\".into()"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => strings(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => strings(&["0", "1", "-1"]),
        "f32" | "f64" => strings(&["0.0", "1.0", "-1.0"]),
        "Result" => wrapped("Ok(", ")"),
        "Option" => Some([vec!["None".to_owned()], wrapped("Some(", ")")?].concat()),
        "Vec" => Some([vec!["Vec::new()".to_owned()], wrapped("vec![", "]")?].concat()),
        "Box" if matches!(inner.first(), Some(Type::TraitObject(_))) => None,
        name @ ("Box" | "Arc" | "Rc" | "Mutex" | "RefCell" | "Cell") => wrapped(&format!("{name}::new("), ")"),
        _ => strings(&["Default::default()"]),
    }
}
