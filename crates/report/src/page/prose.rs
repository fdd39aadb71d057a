//! Conversion of sentences to HTML.

use maud::{Markup, html};

/// Splits a text into sentences, at a full stop that a space and a capital letter follow.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(". ") {
        let next = text[at + 2..].trim_start();
        if next.starts_with(|c: char| c.is_uppercase()) {
            sentences.push(text[from..=at].trim());
            from = at + 1;
        }
    }
    sentences.extend(text[from..].lines().map(str::trim));
    sentences.retain(|s| !s.is_empty());
    sentences
}

/// Returns the text as HTML, with text between two backticks as code.
pub fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick without a partner is kept as a character.
    let lone = parts.len().is_multiple_of(2).then(|| parts.len() - 1);
    html! {
        @for (n, part) in parts.iter().enumerate() {
            @if Some(n) == lone { "`" (part) } @else if n % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_apart_at_its_sentences() {
        let text = "Use x here. It took 0.2 ms. of time. Fill files.\n\nA line";
        let parts = [
            "Use x here.",
            "It took 0.2 ms. of time.",
            "Fill files.",
            "A line",
        ];
        assert_eq!(sentences(text), parts);
        assert_eq!(sentences(""), [""; 0]);
    }

    #[test]
    fn what_is_typed_is_set_as_code() {
        let set = |text: &str| prose(text).into_string();
        assert_eq!(set("a `b <c` d"), "a <code>b &lt;c</code> d");
        assert_eq!(set("`a` `b`"), "<code>a</code> <code>b</code>");
        assert_eq!(set("one ` alone"), "one ` alone");
        assert_eq!(set("`a` and ` alone"), "<code>a</code> and ` alone");
        assert_eq!(set("<b>"), "&lt;b&gt;");
    }
}
