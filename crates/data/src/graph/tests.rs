use super::*;
use sottovoce_core::{Categories, Names};

fn catalog(ids: &[&str]) -> Catalog {
    Catalog::of_ids(ids.iter().copied().collect::<Names>())
}

fn read(plan: &GraphConfig, files: &[(&str, &str)], ids: &[&str]) -> Result<(Facts, GraphReport), DataError> {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    graph_of_bytes(plan, &files, &catalog(ids), &LoadOptions::default())
}

fn all(hops: u8) -> GraphConfig {
    GraphConfig { hops, least_items: 1, ..GraphConfig::default() }
}

fn of(facts: &Facts, item: usize) -> Vec<String> {
    facts.of(item).iter().map(|feature| facts.name(feature as usize)).collect()
}

const TURTLE: &str = r#"
@prefix e: <http://e.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:jumanji a e:Film ; e:director e:joe ; e:country "USA"@en .
e:heat e:director e:mann ; e:wikiPageWikiLink e:joe .
e:joe rdfs:label "Joe"@de, "Joe Johnston"@en ; e:bornIn e:austin .
e:mann e:bornIn e:chicago . e:chicago e:state e:illinois .
e:nobody e:director e:joe .
"#;
const MAPPING: &str = "item\tdbpedia_uri\tsource\n7\thttp://e.example/heat\tx\n8\thttp://e.example/unheard\tx\n\
    9\thttp://e.example/jumanji\tx\n10\thttp://e.example/nobody\tx\n";

#[test]
fn turtle_is_walked_hop_by_hop_from_the_items_of_a_mapping() {
    let files = [("graph.ttl", TURTLE), ("map.tsv", MAPPING)];
    let (facts, report) = read(&all(2), &files, &["7", "8", "9"]).unwrap();
    assert_eq!(of(&facts, 0), ["director: mann", "director > born in: chicago"]);
    assert_eq!(of(&facts, 1), [""; 0]);
    assert_eq!(of(&facts, 2), ["country: USA", "director: Joe Johnston", "director > born in: austin"]);
    assert_eq!((report.linked, report.auxiliary), (2, 2));
    assert_eq!(report.statements, 11);
    let (far, _) = read(&all(3), &files, &["7"]).unwrap();
    assert_eq!(of(&far, 0).last().map(String::as_str), Some("director > born in > state: illinois"));
    assert_eq!((0..3).map(|feature| far.hops(feature)).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn the_order_of_files_and_statements_does_not_matter() {
    let turned: Vec<&str> = MAPPING.lines().skip(1).collect();
    let turned: String = std::iter::once("item\tdbpedia_uri\tsource")
        .chain(turned.into_iter().rev())
        .map(|line| format!("{line}\n"))
        .collect();
    let one = read(&all(2), &[("graph.ttl", TURTLE), ("map.tsv", MAPPING)], &["7", "8", "9"]).unwrap();
    let other = read(&all(2), &[("map.tsv", &turned), ("graph.ttl", TURTLE)], &["7", "8", "9"]).unwrap();
    assert_eq!(one.0, other.0);
}

#[test]
fn statements_are_followed_backwards_on_request() {
    let text = "subject\tpredicate\tobject\nx\tdirector\tp\ny\tdirector\tp\ny\tgenre\tg\n";
    let plan = GraphConfig { inverse: true, ..all(2) };
    let (facts, _) = read(&plan, &[("graph.tsv", text)], &["x", "y"]).unwrap();
    // That an item has a director in common with itself is no fact.
    assert_eq!(of(&facts, 0), ["director: p", "director > director of: y"]);
    assert_eq!(of(&facts, 1), ["director: p", "genre: g", "director > director of: x"]);
}

#[test]
fn tables_of_many_makes_are_told_apart() {
    let kg = "head_id:token\trelation_id:token\ttail_id:token\nm.1\tfilm.film.genre\tm.2\n";
    let link = "item_id:token\tentity_id:token\n5\tm.1\n";
    assert_eq!(of(&read(&all(1), &[("a.kg", kg), ("a.link", link)], &["5"]).unwrap().0, 0), ["genre: m.2"]);
    let (bare, titled) = ("0\tfilm.writer\t3\n", "781\tStealing Beauty (1996)\thttp://e.example/S\n");
    let files = [("kg.txt", bare), ("index.txt", "781\t0\n")];
    assert_eq!(of(&read(&all(1), &files, &["781"]).unwrap().0, 0), ["writer: 3"]);
    let nt = "<http://e.example/S> <http://e.example/in> <http://e.example/Rome> .\n";
    assert_eq!(of(&read(&all(1), &[("m.tsv", titled), ("g.nt", nt)], &["781"]).unwrap().0, 0), ["in: Rome"]);
    let features = "item\tpredicate_id\tobject_id\n1\t0\t4\n1\t1\t5\n1\t2\t6\n";
    let predicates = "predicate_chain\tpredicate_id\thops\nhttp://e/genre~http://e/partOf\t0\t2\nhttp://e/genre\t1\t1\n\
        http://e/sameAs\t2\t1\n";
    let files = [("f.tsv", features), ("p.tsv", predicates)];
    let (facts, report) = read(&all(2), &files, &["1"]).unwrap();
    assert_eq!(of(&facts, 0), ["genre: 5", "genre > part of: 4"]);
    assert_eq!(report.auxiliary, 1);
    let (near, _) = read(&all(1), &files, &["1"]).unwrap();
    assert_eq!(of(&near, 0), ["genre: 5"]);
}

#[test]
fn without_a_mapping_items_are_found_by_name() {
    let nt = "<http://e.example/7> <http://e.example/in> <http://e.example/Rome> .\n";
    let plan = GraphConfig { base: "http://e.example/".to_owned(), ..all(1) };
    assert_eq!(read(&plan, &[("g.nt", nt)], &["6", "7"]).unwrap().0.of(1).to_vec(), [0]);
}

#[test]
fn features_of_few_items_are_left_out_and_counted() {
    let text = "item\tpredicate\tobject\n1\tp\ta\n2\tp\ta\n2\tp\ta\n3\tp\tb\n3\tp\tb\n";
    let plan = GraphConfig { least_items: 2, ..GraphConfig::default() };
    let (facts, report) = read(&plan, &[("f.tsv", text)], &["1", "2", "3"]).unwrap();
    assert_eq!((facts.features(), facts.len(), report.rare, report.linked), (1, 2, 1, 2));
    let text = "subject\tpredicate\tobject\n1\tp\ta\n2\tp\ta\n3\tp\tb\n3\tp\tb\na\tq\tc\n";
    let (facts, report) = read(&plan, &[("g.tsv", text)], &["1", "2", "3"]).unwrap();
    assert_eq!((facts.features(), facts.len(), report.rare), (2, 4, 1));
}

#[test]
fn items_without_facts_are_counted_with_their_interactions() {
    let text = "item\tpredicate\tobject\n1\tp\ta\n";
    let (facts, report) = read(&all(1), &[("f.tsv", text)], &["1", "2", "3"]).unwrap();
    let without = WithoutFacts::of(&facts, &[0, 0, 0, 1, 1, 2, 0, 0]);
    assert_eq!((without.items, without.interactions), (2, 3));
    let messages = report.messages(&facts, &[0, 0, 0, 1, 1, 2, 0, 0]);
    assert!(messages[1].starts_with("nothing is known of 2 items with 37.5 % of the interactions"), "{messages:?}");
    let (facts, report) = read(&all(1), &[("f.tsv", text)], &["1"]).unwrap();
    assert_eq!(report.messages(&facts, &[0, 0]).len(), 1);
}

#[test]
fn categories_are_a_graph() {
    let mut categories = Categories::new(["drama", "comedy"].into_iter().collect());
    categories.push([1]);
    categories.push([0, 1]);
    let with = Catalog { categories: Some(categories), ..catalog(&["a", "b"]) };
    let plan = GraphConfig { sources: vec!["categories".to_owned()], ..all(1) };
    let (facts, _) = read_graph(&plan, "", &with, &LoadOptions::default()).unwrap();
    assert_eq!(of(&facts, 1), ["category: comedy", "category: drama"]);
    let without = read_graph(&plan, "", &catalog(&["a"]), &LoadOptions::default());
    assert!(without.unwrap_err().to_string().contains("whose items have categories"));
}

#[test]
fn the_town_knows_its_places() {
    let data = "synth:town:users=60";
    let set = crate::load(data, &LoadOptions::default()).unwrap();
    let plan = GraphConfig { sources: vec!["town".to_owned()], ..GraphConfig::default() };
    let (facts, report) = read_graph(&plan, data, &set.interactions.catalog, &LoadOptions::default()).unwrap();
    assert_eq!(report.linked, set.interactions.catalog.len());
    let about = describe_facts(&facts, &set.interactions.item);
    assert_eq!(about.without.items, 0);
    assert!(about.by_hops.len() == 2 && about.by_hops.iter().all(|&count| count > 5), "{about:?}");
    assert!(about.items_of_feature[0] >= 10 && about.most_of_item >= 6, "{about:?}");
    assert!(facts.names().iter().any(|name| name.starts_with("category > broader: ")));
    let elsewhere = read_graph(&plan, "ml-1m", &set.interactions.catalog, &LoadOptions::default());
    assert!(elsewhere.unwrap_err().to_string().contains("synthetic town"));
}

#[test]
fn bad_lines_are_named_or_skipped_and_counted() {
    let said = |name: &str, text: &str| read(&all(1), &[(name, text)], &["a"]).unwrap_err().to_string();
    let header = "subject\tpredicate\tobject\n";
    let message = said("g.tsv", &format!("{header}a\tp\tb\na\tp\n"));
    assert!(
        message.starts_with("g.tsv, line 3, field object: expected text in column 3 of 2, found `a\\tp`"),
        "{message}"
    );
    let message = said("g.nt", "<http://e/a> <http://e/p> <http://e/b> .\n<http://e/a> <http://e/p .\n");
    assert!(message.starts_with("g.nt, line 2, field statement: expected a statement"), "{message}");
    let message = said("g.ttl", "@prefix e: <http://e/> .\ne:a e:p ?x .\n");
    assert!(message.starts_with("g.ttl, line 2, field statement"), "{message}");
    assert!(said("g.csv", "a,b,c,d\n").contains("cannot tell its format"));
    assert!(said("g.tsv", "").contains("the file is empty"));
    let predicates = ("p.tsv", "predicate_chain\tpredicate_id\thops\nq\t0\t1\n");
    let unknown = [("f.tsv", "item\tpredicate_id\tobject_id\na\t0\t1\na\t5\t1\n"), predicates];
    let message = read(&all(1), &unknown, &["a"]).unwrap_err().to_string();
    assert!(message.starts_with("f.tsv, line 3, field predicate: expected a number"), "{message}");
    let skip = LoadOptions { skip_bad: true, ..LoadOptions::default() };
    let text = format!("{header}a\tp\t\na\tp\tb\n\tp\tb\n");
    let files = [("g.tsv", text.as_bytes())];
    let (facts, report) = graph_of_bytes(&all(2), &files, &catalog(&["a"]), &skip).unwrap();
    assert_eq!((facts.len(), report.bad.skipped, report.bad.examples.len()), (1, 2, 2));
    let none = read_graph(&all(0), "", &catalog(&["a"]), &skip).unwrap_err().to_string();
    assert!(none.contains("hops"), "{none}");
    let plan = GraphConfig { sources: vec!["not-there.nt".to_owned()], ..all(1) };
    let message = read_graph(&plan, "", &catalog(&["a"]), &skip).unwrap_err().to_string();
    assert!(message.contains("not-there.nt: no such file"), "{message}");
}
