//! docs/cases.md says which test holds which public case. Read here as text, with the tests: each number has one row, each test it names is
//! run and carries the number, and no test carries a number that its row does not know.

use std::{
    collections::BTreeMap,
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

const CASES: RangeInclusive<u32> = 1..=84;

#[test]
fn the_table_of_cases_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("docs/cases.md")).unwrap();
    let found = untruths(&table, &modules(root)).join("\n  ");
    assert!(found.is_empty(), "docs/cases.md:\n  {found}\n");
}

/// Each module that holds tests, by the name the table gives it: those that this binary is made of, and every file under `src/`.
fn modules(root: &Path) -> BTreeMap<String, String> {
    let main = fs::read_to_string(root.join("tests/it/main.rs")).unwrap();
    let names = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let read = |path: PathBuf| fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let ours = names.map(|name| (name.to_owned(), read(root.join(format!("tests/it/{name}.rs")))));
    let mut modules: BTreeMap<_, _> = ours.collect();
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let parts = path.strip_prefix(root).unwrap().with_extension("");
                let parts: Vec<_> = parts.iter().map(|part| part.to_str().unwrap()).collect();
                modules.insert(parts.join("/"), read(path));
            }
        }
    }
    modules
}

/// Everything that is not so, a line each.
fn untruths(table: &str, modules: &BTreeMap<String, String>) -> Vec<String> {
    let tests: BTreeMap<String, Test> = modules
        .iter()
        .flat_map(|(module, text)| tests(text).into_iter().map(move |test| (format!("{module}::{}", test.name), test)))
        .collect();
    let mut found = Vec::new();
    let mut rows = BTreeMap::<u32, Vec<&str>>::new();
    for line in table.lines().filter(|line| line.starts_with('|') && line.contains("BUG-")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let numbers = numbers(cells[1]);
        let ([number], [_, _, claim, held, ..]) = (&numbers[..], &cells[..]) else {
            found.push(format!("no row of a case: {line}"));
            continue;
        };
        if claim.is_empty() {
            found.push(format!("BUG-{number:02} claims nothing"));
        }
        if rows.insert(*number, held.split(", `").flat_map(entries).collect()).is_some() {
            found.push(format!("BUG-{number:02} has two rows"));
        }
    }
    found.extend(CASES.filter(|n| !rows.contains_key(n)).map(|n| format!("BUG-{n:02} has no row")));
    for (number, held) in &rows {
        if !CASES.contains(number) {
            found.push(format!("BUG-{number:02} is no case"));
        }
        if held.is_empty() {
            found.push(format!("BUG-{number:02} is held by nothing"));
        }
        for entry in held {
            match tests.get(*entry) {
                None => found.push(format!("BUG-{number:02}: {entry} is no test")),
                Some(test) if test.ignored => found.push(format!("BUG-{number:02}: {entry} is ignored")),
                Some(test) if !leading_numbers(&test.doc).contains(number) => {
                    found.push(format!(
                        "BUG-{number:02}: the doc comment of {entry} does not begin with the number"
                    ));
                }
                Some(_) => {}
            }
        }
    }
    for (path, test) in &tests {
        for number in numbers(&test.doc) {
            if !rows.get(&number).is_some_and(|held| held.contains(&path.as_str())) {
                found.push(format!(
                    "BUG-{number:02}: its row does not name {path}, whose doc comment has the number"
                ));
            }
        }
    }
    found
}

/// The entries of a cell's piece: tests stand in backticks, pieces of work are plain words that may hold commas.
fn entries(piece: &str) -> Vec<&str> {
    let piece = piece.trim_start_matches('`');
    match piece.split_once('`') {
        Some((test, rest)) => {
            let rest = rest.trim_start_matches(',').trim();
            if rest.is_empty() { vec![test] } else { vec![test, rest] }
        }
        None if piece.is_empty() => Vec::new(),
        None => vec![piece],
    }
}

/// Every `BUG-nn` in a text.
fn numbers(text: &str) -> Vec<u32> {
    let behind = text.split("BUG-").skip(1);
    let digits = behind.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    // What is no number of two digits is no case, and is told as such.
    digits
        .map(|digits| if digits.len() == 2 { digits.parse().unwrap_or(0) } else { 0 })
        .collect()
}

/// The numbers at the front of a doc comment: `BUG-20, BUG-21: …`.
fn leading_numbers(doc: &str) -> Vec<u32> {
    let front = doc.split_once(':').map_or("", |(front, _)| front);
    let leading = front.split(", ").take_while(|word| word.starts_with("BUG-"));
    leading.flat_map(numbers).collect()
}

struct Test {
    name: String,
    doc: String,
    ignored: bool,
}

/// The tests in a file: functions under `#[test]` or `#[tokio::test]`, each with its doc comment.
fn tests(text: &str) -> Vec<Test> {
    let (mut found, mut doc, mut attributes) = (Vec::new(), String::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            doc.push_str(words.trim());
            doc.push(' ');
        } else if line.starts_with("#[") {
            attributes.push(line);
        } else if !line.starts_with("//") {
            let is_test = |attribute: &&str| matches!(*attribute, "#[test]" | "#[tokio::test]") || attribute.starts_with("#[tokio::test(");
            let code = line.trim_start_matches("pub(crate) ").trim_start_matches("async ");
            if let Some(rest) = code.strip_prefix("fn ")
                && attributes.iter().any(is_test)
            {
                let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                found.push(Test {
                    name: name.to_owned(),
                    doc: doc.clone(),
                    ignored: attributes.iter().any(|attribute| attribute.contains("ignore")),
                });
            }
            doc.clear();
            attributes.clear();
        }
    }
    found
}

/// A check that can't go red is none: a table and its tests, and one untruth at a time.
#[test]
fn every_untruth_in_the_table_goes_red() {
    const TESTS: &str =
        "/// BUG-01, BUG-02: holds.\n/// On.\n#[tokio::test]\nasync fn it_holds() {}\n\nfn helper() {}\n#[test]\nfn plain() {}\n";
    let carried: Vec<String> = (2..=84).map(|n| format!("BUG-{n:02}")).collect();
    let unit = format!(
        "mod tests {{\n    /// {}: holds.\n    #[test]\n    fn deep() {{}}\n}}\n",
        carried.join(", ")
    );
    let unit = unit.as_str();
    const HEAD: &str = "# Cases\n\n| case | claim | held by | seen at |\n|---|---|---|---|\n";
    let table = CASES.fold(HEAD.to_owned(), |table, n| {
        let held = match n {
            1 => "`a::it_holds`",
            2 => "`a::it_holds`, `src/b/c::deep`",
            _ => "`src/b/c::deep`",
        };
        table + &format!("| BUG-{n:02} | claim | {held} | [1](https://example.com/{n}) |\n")
    });
    let judge = |table: &str, tests: &str, unit: &str| {
        let modules = [("a", tests), ("src/b/c", unit)].map(|(name, text)| (name.to_owned(), text.to_owned()));
        untruths(table, &modules.into())
    };
    assert_eq!(judge(&table, TESTS, unit), [""; 0]);

    let row = |n: u32| {
        table
            .lines()
            .find(|line| line.contains(&format!("BUG-{n:02} ")))
            .unwrap()
            .to_owned()
            + "\n"
    };
    for (old, new, said) in [
        (row(84), String::new(), "BUG-84 has no row"),
        (row(84), row(84) + &row(84), "BUG-84 has two rows"),
        (row(84), row(84) + "| BUG-85 | claim | `src/b/c::deep` | |\n", "BUG-85 is no case"),
        (row(84), row(84) + "| BUG-8 | claim | `src/b/c::deep` | |\n", "BUG-00 is no case"),
        (row(84), "| BUG-84 | claim | | |\n".to_owned(), "BUG-84 is held by nothing"),
        (row(84), "| BUG-84 | | `src/b/c::deep` | |\n".to_owned(), "BUG-84 claims nothing"),
        (row(84), row(84) + "| BUG-84\n", "no row of a case: | BUG-84"),
        (row(84), row(84).replace("`src/b/c::deep`", "later"), "BUG-84: later is no test"),
        (
            row(84),
            row(84).replace("`src/b/c::deep`", "`a::plain`"),
            "BUG-84: the doc comment of a::plain",
        ),
        (
            row(84),
            row(84).replace("`src/b/c::deep`", "`a::helper`"),
            "BUG-84: a::helper is no test",
        ),
        (
            row(84),
            row(84).replace("`src/b/c::deep`", "`z::it_holds`"),
            "BUG-84: z::it_holds is no test",
        ),
        (
            row(1),
            row(1).replace("`a::it_holds`", "`src/b/c::deep`"),
            "BUG-01: its row does not name a::it_holds",
        ),
        (
            row(2),
            row(2).replace(", `src/b/c::deep`", ""),
            "BUG-02: its row does not name src/b/c::deep",
        ),
    ] {
        assert_red(judge(&table.replace(&old, &new), TESTS, unit), said);
    }
    for (old, new, said) in [
        ("#[tokio::test]\n", "", "BUG-01: a::it_holds is no test"),
        (
            "#[tokio::test]\n",
            "#[tokio::test]\n#[ignore = \"slow\"]\n",
            "BUG-01: a::it_holds is ignored",
        ),
        ("it_holds", "it_held", "BUG-01: a::it_holds is no test"),
        ("BUG-01, ", "", "BUG-01: the doc comment of a::it_holds"),
        (
            "BUG-01, BUG-02: holds.",
            "BUG-02: holds. BUG-01.",
            "BUG-01: the doc comment of a::it_holds",
        ),
        (
            "BUG-02: holds.\n/// On.",
            "BUG-02: holds.\n/// BUG-04.",
            "BUG-04: its row does not name a::it_holds",
        ),
        ("#[test]", "/// BUG-85: more.\n#[test]", "BUG-85: its row does not name a::plain"),
    ] {
        assert_red(judge(&table, &TESTS.replace(old, new), unit), said);
    }
    assert_red(
        judge(&table, TESTS, &unit.replace("#[test]", "// #[test]")),
        "BUG-03: src/b/c::deep is no test",
    );
}

#[track_caller]
fn assert_red(found: Vec<String>, said: &str) {
    assert!(
        found.iter().any(|untruth| untruth.starts_with(said)),
        "wanted {said}, found {found:#?}"
    );
}
