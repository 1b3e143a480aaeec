//! Writes a file with its switches: operands once, alternatives beside each other.

use std::ops::Range;

use serde::Serialize;

use crate::find::{Form, Site};

/// A site with its switch, and its mutants without those that do not compile.
pub struct Planted {
    pub site: Site,
    pub switch: usize,
    /// The number of each alternative's mutant, or `None` where it is dropped.
    pub kept: Vec<Option<usize>>,
}

/// Where the text of mutants lies: of one alternative, or of a whole switch.
#[derive(Serialize)]
pub struct Place(usize, usize, Vec<usize>);

/// The text with its switches, and the places of the mutants in it.
pub fn plant(text: &str, sites: Vec<Planted>, crate_of_switches: &str) -> (String, Vec<Place>) {
    let mut writer = Writer {
        text,
        sites: &sites,
        at: format!("{crate_of_switches}::mutant_switch::at"),
        out: String::new(),
        places: Vec::new(),
    };
    writer.original(0..text.len());
    (writer.out, writer.places)
}

struct Writer<'a> {
    text: &'a str,
    sites: &'a [Planted],
    at: String,
    out: String,
    places: Vec<Place>,
}

impl Writer<'_> {
    /// The text of a range, with the switches in it.
    fn original(&mut self, range: Range<usize>) {
        let mut written = range.start;
        let sites = self.sites;
        let first = sites.partition_point(|planted| planted.site.range.start < range.start);
        for planted in &sites[first..] {
            let site = &planted.site.range;
            if site.start >= range.end {
                break;
            }
            if site.end > range.end || site.start < written {
                continue;
            }
            if planted.kept.iter().all(Option::is_none) {
                continue;
            }
            self.out.push_str(&self.text[written..site.start]);
            self.switch(planted);
            written = site.end;
        }
        self.out.push_str(&self.text[written..range.end]);
    }

    /// Arms `number => …` for what is kept, each written by `write`.
    fn arms(&mut self, planted: &Planted, mut write: impl FnMut(&mut Self, &str)) {
        for ((alternative, kept), number) in planted.site.alternatives.iter().zip(&planted.kept).zip(1..) {
            if let Some(mutant) = *kept {
                self.out.push_str(&format!("{number} => "));
                let begin = self.out.len();
                write(self, &alternative.text);
                self.places.push(Place(begin, self.out.len(), vec![mutant]));
                self.out.push_str(", ");
            }
        }
    }

    fn switch(&mut self, planted: &Planted) {
        let begin = self.out.len();
        let at = format!("{}({})", self.at, planted.switch);
        match &planted.site.form {
            Form::Arithmetic { left, operator, right } => {
                self.out.push_str("(match (");
                self.original(left.clone());
                self.out.push_str(", ");
                self.original(right.clone());
                self.out.push_str(&format!(") {{ (left_, right_) => match {at} {{ "));
                self.arms(planted, |writer, other| writer.out.push_str(&format!("left_ {other} right_")));
                self.out.push_str(&format!("_ => left_ {operator} right_ }} }})"));
            }
            Form::Comparison { left, operator, right } => {
                self.out.push_str("(match (&(");
                self.original(left.clone());
                self.out.push_str("), &(");
                self.original(right.clone());
                self.out.push_str(&format!(")) {{ (left_, right_) => match {at} {{ "));
                self.arms(planted, |writer, other| writer.out.push_str(&format!("*left_ {other} *right_")));
                self.out.push_str(&format!("_ => *left_ {operator} *right_ }} }})"));
            }
            Form::Logical { left, is_and, right } => {
                // The second operand where it is asked for, once: `a && b` is b where a, else false; `a || b` is b where not a, else true.
                self.out.push_str("(if (");
                self.original(left.clone());
                self.out.push_str(&format!(") {} ({at} == 0) {{ ", if *is_and { "==" } else { "!=" }));
                self.original(right.clone());
                self.out.push_str(&format!(" }} else {{ ({at} == 0) != {is_and} }})"));
            }
            Form::Assignment { place, operator, right } => {
                self.out.push_str("(match ");
                self.original(right.clone());
                self.out.push_str(&format!(" {{ right_ => match {at} {{ "));
                self.arms(planted, |writer, other| {
                    writer.original(place.clone());
                    writer.out.push_str(&format!(" {other} right_"));
                });
                self.out.push_str("_ => ");
                self.original(place.clone());
                self.out.push_str(&format!(" {operator} right_ }} }})"));
            }
            Form::Unary { operator, value } => {
                self.out.push_str("(match ");
                self.original(value.clone());
                self.out.push_str(&format!(" {{ value_ => match {at} {{ "));
                // Twice, since once may change the type: of a reference to a number, for one.
                self.arms(planted, |writer, _| writer.out.push_str(&format!("{operator}({operator}value_)")));
                self.out.push_str(&format!("_ => {operator}value_ }} }})"));
            }
            Form::Body => {
                self.out.push_str(&format!(" if {at} != 0 {{ match {at} {{ "));
                self.arms(planted, |writer, value| writer.out.push_str(&format!("return {value}")));
                self.out.push_str("_ => {} } } ");
            }
            Form::NewGuard => self.out.push_str(&format!(" if {at} == 0")),
            Form::Guard { condition } => {
                self.out.push_str(&format!("if (match {at} {{ "));
                self.arms(planted, |writer, value| writer.out.push_str(value));
                self.out.push_str("_ => ");
                self.original(condition.clone());
                self.out.push_str(" })");
            }
        }
        self.places.push(Place(begin, self.out.len(), planted.kept.iter().flatten().copied().collect()));
    }
}
