use super::*;
use proptest::prelude::*;

fn read(bytes: impl AsRef<[u8]>) -> Result<(WordVectors, ReadReport)> {
    WordVectors::read(bytes.as_ref())
}

fn refused(bytes: impl AsRef<[u8]>) -> String {
    read(bytes).unwrap_err().to_string()
}

fn binary(header: &str, words: &[(&str, &[f32])], end: &str) -> Vec<u8> {
    let mut bytes = header.as_bytes().to_vec();
    for (word, values) in words {
        bytes.extend(word.bytes().chain([b' ']));
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(end.bytes());
    }
    bytes
}

#[test]
fn all_formats_give_the_same_table() {
    let words: [(&str, &[f32]); 3] = [("the", &[0.25, -1.0]), ("Café", &[1e-3, 2.0]), ("京都", &[0.0, 3.5])];
    let lines = "the 0.25 -1\nCafé 0.001 2\n京都 0 3.5\n";
    let expected = WordVectors::new(&["the", "Café", "京都"], vec![0.25, -1.0, 1e-3, 2.0, 0.0, 3.5], 2).unwrap();
    for (bytes, format) in [
        (lines.as_bytes().to_vec(), VectorFormat::Glove),
        (lines.trim_end().as_bytes().to_vec(), VectorFormat::Glove),
        (format!("3 2\n{lines}").into_bytes(), VectorFormat::Word2VecText),
        (
            format!("3 2\r\n{}", lines.replace('\n', " \r\n").replace(' ', "\t")).into_bytes(),
            VectorFormat::Word2VecText,
        ),
        (binary("3 2\n", &words, "\n"), VectorFormat::Word2VecBinary),
        (binary("3 2\n", &words, ""), VectorFormat::Word2VecBinary),
    ] {
        let (found, report) = read(bytes).unwrap();
        assert_eq!(report, ReadReport { format, duplicates: 0, empty_lines: 0 });
        assert_eq!(found, expected, "{format:?}");
    }
}

#[test]
fn what_is_written_is_read_back_as_the_same_bits() {
    let values = vec![f32::MIN_POSITIVE, -0.0, 1.0 / 3.0, f32::MAX, 1e-45, -7.0];
    let table = WordVectors::new(&["a", "🎉"], values.clone(), 3).unwrap();
    let mut text = Vec::new();
    table.write(&mut text).unwrap();
    assert!(text.starts_with(b"2 3\na "));
    let (back, _) = read(&text).unwrap();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&back.values), bits(&values));
    let spaced = WordVectors::new(&["New York"], vec![1.0], 1).unwrap().write(&mut Vec::new()).unwrap_err();
    assert_eq!(
        spaced.to_string(),
        "the word `New York` contains white space, which separates values; join its parts by `_`"
    );
}

#[test]
fn duplicates_and_empty_lines_are_counted_and_the_first_vector_counts() {
    let (table, report) = read("3 1\na 1\n\na 2\nb 3\n\n").unwrap();
    assert_eq!((table.len(), table.get("a"), table.get("b")), (2, Some(&[1.0][..]), Some(&[3.0][..])));
    assert_eq!((report.duplicates, report.empty_lines), (1, 2));
    let (_, report) = read(binary("2 1\n", &[("a", &[1.5]), ("a", &[2.5])], "")).unwrap();
    assert_eq!(report.duplicates, 1);
}

#[test]
fn words_with_spaces_are_taken_from_glove() {
    let (table, _) = read("the 1 2\n. . . 3 4\n1990 5 6\n").unwrap();
    assert_eq!((table.get(". . ."), table.get("1990")), (Some(&[3.0, 4.0][..]), Some(&[5.0, 6.0][..])));
}

#[test]
fn errors_name_line_and_column() {
    for (text, expected) in [
        ("", "line 1: the file is empty; it should have a line for each word"),
        ("alone\n", "line 1: a word and 1 to 4096 values expected, 0 values found"),
        ("a 1 2\nb 1\n", "line 2: 1 values, but line 1 has 2"),
        ("a 1 2\nb 1 2 3\n", "line 2: 3 values, but line 1 has 2"),
        ("2 2\na 1 2\nb 1 2 3\n", "line 3: 3 values, but line 1 says 2"),
        ("1 2\na NaN 2\n", "line 2: column 2: `NaN` is not a finite number that fits 32 bits"),
        ("a 1 2\nb 1 1e39\n", "line 2: column 3: `1e39` is not a finite number that fits 32 bits"),
        ("a 1 2\nb 1 two\n", "line 2: column 3: `two` is not a finite number that fits 32 bits"),
        ("2 0\n", "line 1: vectors of 0 values; they must have from 1 to 4096"),
        ("2 5000\n", "line 1: vectors of 5000 values; they must have from 1 to 4096"),
        ("1 1\na 1\nb 2\n", "line 3: more words than the 1 that line 1 says"),
        ("3 1\na 1\n", "line 3: the file ends after 1 words, but its first line says 3; is it complete?"),
        (
            "9000000000000000000 4\n",
            "line 2: the file ends after 0 words, but its first line says 9000000000000000000; is it complete?",
        ),
    ] {
        assert_eq!(refused(text), expected, "{text:?}");
    }
    assert_eq!(refused(b"a 1\n\xFF 1\n"), "line 2: not UTF-8; convert the file, for example with iconv");
    let long = format!("a 1\n{}", "x".repeat(2 << 20));
    assert_eq!(refused(long), "line 2: longer than 1048576 bytes; this is no file of vectors");
}

#[test]
fn errors_of_binary_files_name_the_word() {
    let good: [(&str, &[f32]); 2] = [("a", &[1.5, 2.5]), ("b", &[3.5, 4.5])];
    let cut = "the file ends here, but its first line says 2 words; is it complete?";
    let bytes = binary("2 2\n", &good, "");
    assert_eq!(refused(&bytes[..bytes.len() - 1]), format!("word 2: {cut}"));
    assert_eq!(refused(&bytes[..bytes.len() - 9]), format!("word 2: {cut}"));
    assert_eq!(refused(binary("1 2\n", &good, "")), "word 2: more words than the 1 that the first line says");
    let nan = binary("1 2\n", &[("a", &[1.5, f32::NAN])], "");
    assert_eq!(refused(nan), "word 1: `a`, value 2: not a finite number");
    let unnamed = binary("1 2\n", &[("", &[1.5, 2.5])], "");
    assert_eq!(refused(unnamed), "word 1: empty");
    let promised = binary("18446744073709551615 4096\n", &good, "");
    assert!(refused(promised).starts_with("word 1: the file ends here"));
}

#[test]
fn tables_that_do_not_fit_together_are_refused() {
    let refused = |words: &[&str], values: Vec<f32>| WordVectors::new(words, values, 2).unwrap_err().to_string();
    assert_eq!(refused(&[], vec![]), "a table of vectors needs at least one word");
    assert_eq!(refused(&["a"], vec![1.0]), "1 words of 2 values each, but 1 values");
    assert_eq!(refused(&["a", "a"], vec![1.0; 4]), "the word `a` comes twice");
    assert_eq!(refused(&["a", ""], vec![1.0; 4]), "word 2 is empty");
    assert_eq!(refused(&["a", "b"], vec![1.0, 1.0, 1.0, f32::NAN]), "value 2 of `b` is not finite");
}

#[test]
fn titles_are_means_of_known_words_in_any_script() {
    let words = ["paris", "London", "москва", "北京", "大学", "北京大学", "东京", "京都", "القاهرة", "🎉"];
    let values = (0..words.len()).flat_map(|row| (0..10).map(move |at| f32::from(u8::from(at == row)))).collect();
    let table = WordVectors::new(&words, values, 10).unwrap();
    for (title, expected) in [
        ("Paris, LONDON and Rome", &[0usize, 1][..]),
        ("МОСКВА!", &[2]),
        ("北京的大学", &[3, 4]),
        ("在北京大学", &[5]),
        ("东京都", &[6, 7]),
        ("القاهرة 🎉", &[8, 9]),
        ("nothing known", &[]),
        ("", &[]),
    ] {
        let vector = table.vector(title);
        for (at, &value) in vector.iter().enumerate() {
            let mean = if expected.contains(&at) { 1.0 / expected.len() as f32 } else { 0.0 };
            assert!((value - mean).abs() < 1e-6, "{title}: {vector:?}");
        }
    }
    assert!(math::all_finite(&table.vector(&"北京大学生 ".repeat(20_000))));
}

#[test]
fn idf_weighs_rare_words_more() {
    let mut table = WordVectors::new(&["often", "seldom"], vec![1.0, 0.0, 0.0, 1.0], 2).unwrap();
    assert_eq!(table.vector("often seldom"), [0.5, 0.5]);
    table.weight_by_idf((0..99).map(|n| if n == 0 { "seldom often often" } else { "often" }));
    // idf 1 and 1 + ln(100 / 2).
    let expected = (1.0 + 50f32.ln()) / (2.0 + 50f32.ln());
    let vector = table.vector("often seldom");
    assert!((vector[1] - expected).abs() < 1e-6 && (vector[0] + vector[1] - 1.0).abs() < 1e-6, "{vector:?}");
    assert_eq!(table.vector("often"), [1.0, 0.0]);
}

#[test]
fn entities_are_averaged_by_their_exact_names() {
    let table = WordVectors::new(&["New York", "Paris"], vec![2.0, 0.0, 0.0, 2.0], 2).unwrap();
    let mut mean = [9.0; 2];
    assert_eq!(table.mean(["New York", "Paris", "paris", "?"], &mut mean), 2);
    assert_eq!(mean, [1.0, 1.0]);
    assert_eq!(table.mean([""; 0], &mut mean), 0);
    assert_eq!(mean, [0.0; 2]);
}

#[test]
fn neighbours_are_ordered_by_cosine_not_by_length() {
    let values = vec![1.0, 0.0, 9.0, 9.0, 0.1, 0.01, -5.0, 0.0, 0.0, 0.0];
    let table = WordVectors::new(&["a", "b", "c", "d", "zero"], values, 2).unwrap();
    let names = |found: Vec<(&str, f32)>| found.into_iter().map(|(word, _)| word.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(table.neighbours("a", 9)), ["c", "b", "zero", "d"]);
    assert_eq!(names(table.neighbours("a", 2)), ["c", "b"]);
    assert_eq!(names(table.nearest(&[1.0, 0.0], 2)), ["a", "c"]);
    assert_eq!((table.neighbours("?", 3).len(), table.neighbours("a", 0).len()), (0, 0));
    let (_, cosine) = table.neighbours("a", 1)[0];
    assert!((cosine - 0.1 / 0.0101f32.sqrt()).abs() < 1e-6);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), header in "[0-9]{1,3} [0-9]{1,2}\n|") {
        let _ = read([header.as_bytes(), &bytes].concat());
    }

    #[test]
    fn no_text_panics(text in "([0-9]{1,2} [0-9]\n)?([a-c.\n]{1,3}( -?[0-9e.]{1,4}){0,3}\r?\n){0,5}") {
        let _ = read(&text);
    }
}
