//! How far a word is from the one that was probably meant.

/// Levenshtein's: how many letters to add, take or change.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (n, letter) in one.chars().enumerate() {
        let mut next = vec![n + 1];
        for ((above, corner), compared) in row.iter().skip(1).zip(&row).zip(other.chars()) {
            let changed = corner + usize::from(letter != compared);
            let left = next.last().copied().unwrap_or_default();
            next.push(changed.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
