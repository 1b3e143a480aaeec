//! Finds what can be changed in a file: the kinds of `cargo mutants`, on the syntax tree.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, AttrStyle, Attribute, BinOp, Block, Expr, ImplItemFn, Item, ItemFn, ItemImpl, ItemMod, Pat, ReturnType,
    Signature, TraitItemFn, UnOp,
};

use crate::values;

/// One place of a file where alternatives take turns.
pub struct Site {
    /// What the switch replaces; empty where it only inserts.
    pub range: Range<usize>,
    /// How it is written.
    pub form: Form,
    /// What may stand there instead, at most 254.
    pub alternatives: Vec<Alternative>,
    /// Where people look for it, both from 1.
    pub line: usize,
    /// In characters.
    pub column: usize,
    function: String,
}

/// Another text for the same place.
pub struct Alternative {
    /// As people read it: `replace + with -`.
    pub name: String,
    /// An operator, a value or a guard.
    pub text: String,
}

/// The ways to write alternatives so that operands are evaluated once, in their order.
pub enum Form {
    /// `left operator right`, whose operands are moved.
    Arithmetic { left: Range<usize>, operator: String, right: Range<usize> },
    /// The same of operands that are looked at.
    Comparison { left: Range<usize>, operator: String, right: Range<usize> },
    /// `&&` or `||`.
    Logical { left: Range<usize>, is_and: bool, right: Range<usize> },
    /// `place operator= right`.
    Assignment { place: Range<usize>, operator: String, right: Range<usize> },
    /// `-value` or `!value`.
    Unary { operator: String, value: Range<usize> },
    /// A return before a body.
    Body,
    /// A guard for an arm that has none.
    NewGuard,
    /// Another value of a guard.
    Guard { condition: Range<usize> },
}

impl Site {
    /// What `name` ends with.
    pub fn place(&self) -> String {
        if self.function.is_empty() { String::new() } else { format!(" in {}", self.function) }
    }
}

/// All sites of a file in the order of their beginnings, and what can be no site, by reason.
pub fn sites(text: &str) -> syn::Result<(Vec<Site>, BTreeMap<String, usize>)> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder {
        sites: Vec::new(),
        inexpressible: BTreeMap::new(),
        function: String::new(),
        owner: String::new(),
        is_const: false,
    };
    finder.visit_file(&file);
    finder
        .sites
        .sort_by_key(|site| (site.range.start, site.range.end != site.range.start, usize::MAX - site.range.end));
    Ok((finder.sites, finder.inexpressible))
}

struct Finder {
    sites: Vec<Site>,
    inexpressible: BTreeMap<String, usize>,
    function: String,
    owner: String,
    is_const: bool,
}

/// Whether an item is there for tests alone.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.meta.to_token_stream().to_string().replace(' ', "");
        text == "test" || (text.starts_with("cfg(") && text.contains("test"))
    })
}

/// `let` inside a condition, which has no value of its own.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn bytes(what: &impl Spanned) -> Range<usize> {
    what.span().byte_range()
}

impl Finder {
    fn add(&mut self, range: Range<usize>, form: Form, span: Span, alternatives: Vec<Alternative>) {
        if self.is_const {
            *self.inexpressible.entry("evaluated when compiled".into()).or_default() += alternatives.len();
        } else if !alternatives.is_empty() {
            self.sites.push(Site {
                range,
                form,
                alternatives,
                line: span.start().line,
                column: span.start().column + 1,
                function: self.function.clone(),
            });
        }
    }

    fn function(
        &mut self,
        attributes: &[Attribute],
        signature: &Signature,
        block: &Block,
        visit: impl FnOnce(&mut Self),
    ) {
        if is_for_tests(attributes) || signature.unsafety.is_some() {
            return;
        }
        let name = if self.owner.is_empty() {
            signature.ident.to_string()
        } else {
            format!("{}::{}", self.owner, signature.ident)
        };
        let (outer, outer_const) = (
            std::mem::replace(&mut self.function, name),
            std::mem::replace(&mut self.is_const, signature.constness.is_some()),
        );
        if !block.stmts.is_empty() && self.owner != "Default for" && signature.ident != "main" {
            self.body(attributes, &signature.output, block);
        }
        visit(self);
        (self.function, self.is_const) = (outer, outer_const);
    }

    fn body(&mut self, attributes: &[Attribute], output: &ReturnType, block: &Block) {
        let Some(values) = values::of_return_type(output) else {
            *self.inexpressible.entry("a value of an opaque type".into()).or_default() += 1;
            return;
        };
        let inner = attributes
            .iter()
            .filter(|attribute| matches!(attribute.style, AttrStyle::Inner(_)))
            .map(|attribute| bytes(attribute).end)
            .max();
        let place = inner.unwrap_or(block.brace_token.span.open().byte_range().end);
        let own: String = block.stmts.iter().map(|statement| statement.to_token_stream().to_string()).collect();
        let alternatives = values
            .into_iter()
            .filter(|value| own.replace(' ', "") != value.replace(' ', ""))
            .map(|value| Alternative { name: format!("replace body with {value}"), text: value })
            .collect();
        self.add(place..place, Form::Body, block.span(), alternatives);
    }
}

fn replaced(operator: &str, by: &[&str]) -> Vec<Alternative> {
    by.iter()
        .map(|other| Alternative { name: format!("replace {operator} with {other}"), text: (*other).to_owned() })
        .collect()
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Const(_) | Item::Static(_) => {
                let outer = std::mem::replace(&mut self.is_const, true);
                visit::visit_item(self, item);
                self.is_const = outer;
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        let outer = std::mem::replace(&mut self.is_const, true);
        visit::visit_impl_item_const(self, item);
        self.is_const = outer;
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if is_for_tests(&item.attrs) {
            return;
        }
        let kind = item.self_ty.to_token_stream().to_string().replace(' ', "");
        let of =
            item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last()).map(|segment| segment.ident.to_string());
        let name = if of.as_deref() == Some("Default") { "Default for".to_owned() } else { kind };
        let outer = std::mem::replace(&mut self.owner, name);
        visit::visit_item_impl(self, item);
        self.owner = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, |finder| visit::visit_block(finder, &item.block));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block, |finder| visit::visit_block(finder, &item.block));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block, |finder| visit::visit_block(finder, block));
        }
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Binary(binary) => {
                let operator = binary.op.to_token_stream().to_string();
                let (left, right) = (bytes(&binary.left), bytes(&binary.right));
                let others: &[&str] = match binary.op {
                    BinOp::Eq(_) => &["!="],
                    BinOp::Ne(_) => &["=="],
                    BinOp::Lt(_) => &["==", ">", "<="],
                    BinOp::Gt(_) => &["==", "<", ">="],
                    BinOp::Le(_) => &[">"],
                    BinOp::Ge(_) => &["<"],
                    BinOp::And(_) => &["||"],
                    BinOp::Or(_) => &["&&"],
                    BinOp::Add(_) => &["-", "*"],
                    BinOp::Sub(_) => &["+", "/"],
                    BinOp::Mul(_) => &["+", "/"],
                    BinOp::Div(_) => &["%", "*"],
                    BinOp::Rem(_) => &["/", "+"],
                    BinOp::Shl(_) => &[">>"],
                    BinOp::Shr(_) => &["<<"],
                    BinOp::BitAnd(_) => &["|", "^"],
                    BinOp::BitOr(_) => &["&", "^"],
                    BinOp::BitXor(_) => &["|", "&"],
                    BinOp::AddAssign(_) => &["-=", "*="],
                    BinOp::SubAssign(_) => &["+=", "/="],
                    BinOp::MulAssign(_) => &["+=", "/="],
                    BinOp::DivAssign(_) => &["%=", "*="],
                    BinOp::RemAssign(_) => &["/=", "+="],
                    BinOp::BitAndAssign(_) => &["|=", "^="],
                    BinOp::BitOrAssign(_) => &["&=", "^="],
                    BinOp::BitXorAssign(_) => &["|=", "&="],
                    BinOp::ShlAssign(_) => &[">>="],
                    BinOp::ShrAssign(_) => &["<<="],
                    _ => &[],
                };
                let form = match binary.op {
                    BinOp::And(_) | BinOp::Or(_) => Form::Logical { left, is_and: operator == "&&", right },
                    BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Gt(_) | BinOp::Le(_) | BinOp::Ge(_) => {
                        Form::Comparison { left, operator: operator.clone(), right }
                    }
                    _ if operator.ends_with('=') => Form::Assignment { place: left, operator: operator.clone(), right },
                    _ => Form::Arithmetic { left, operator: operator.clone(), right },
                };
                if has_let(expression) {
                    *self.inexpressible.entry("beside `let` in a condition".into()).or_default() += others.len();
                } else {
                    self.add(bytes(expression), form, binary.op.span(), replaced(&operator, others));
                }
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_) | UnOp::Not(_)) => {
                let operator = unary.op.to_token_stream().to_string();
                let deleted = Alternative { name: format!("delete {operator}"), text: String::new() };
                self.add(
                    bytes(expression),
                    Form::Unary { operator, value: bytes(&unary.expr) },
                    unary.op.span(),
                    vec![deleted],
                );
            }
            Expr::Match(matched) => {
                let has_rest = matched.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none());
                for arm in &matched.arms {
                    self.arm(arm, has_rest);
                }
            }
            Expr::Repeat(repeat) => return self.visit_expr(&repeat.expr),
            Expr::Const(_) => return,
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

impl Finder {
    fn arm(&mut self, arm: &Arm, has_rest: bool) {
        let pattern = arm.pat.to_token_stream().to_string();
        if let Some((word, condition)) = &arm.guard {
            if has_let(condition) {
                *self.inexpressible.entry("beside `let` in a condition".into()).or_default() += 2;
                return;
            }
            let alternatives = ["true", "false"].map(|value| Alternative {
                name: format!("replace guard of {pattern} with {value}"),
                text: value.to_owned(),
            });
            let condition = bytes(condition);
            self.add(bytes(word).start..condition.end, Form::Guard { condition }, arm.pat.span(), alternatives.into());
        } else if has_rest && !matches!(arm.pat, Pat::Wild(_)) {
            let end = bytes(&arm.pat).end;
            let deleted = Alternative { name: format!("delete arm {pattern}"), text: String::new() };
            self.add(end..end, Form::NewGuard, arm.pat.span(), vec![deleted]);
        }
    }
}
