//! Graphs, damaged as data sets are: examples of every kind of source.

use super::Case;
use sottovoce_core::{Catalog, Facts};
use sottovoce_data::{GraphConfig, LoadOptions, graph_of_bytes};

const TURTLE: &[u8] = br#"@prefix e: <http://e.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:jumanji a e:Film ; e:director e:joe ; e:country "USA"@en .
e:heat e:director e:mann ; e:wikiPageWikiLink e:joe ; e:year 1995 .
e:joe rdfs:label "Joe"@de, "Joe \u00e8 Johnston"@en ; e:bornIn [ e:in e:texas ] .
e:mann e:bornIn e:chicago . e:chicago e:state e:illinois .
"#;

const N_TRIPLES: &[u8] = b"<http://e.example/heat> <http://e.example/director> <http://e.example/mann> .\n\
    <http://e.example/mann> <http://www.w3.org/2000/01/rdf-schema#label> \"Michael \\\"M\\\" Mann\"@en .\n\
    _:b0 <http://e.example/starring> \"de Niro\" .\n# what follows is walked back from\n\
    <http://e.example/mann> <http://e.example/madeOf> <http://e.example/heat> .\n";

const MAPPING: &[u8] = b"item\tdbpedia_uri\tsource\n7\thttp://e.example/heat\tx\n9\thttp://e.example/jumanji\tx\n";

fn case(files: &[(&str, &[u8])]) -> Case {
    Case { files: files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect() }
}

/// One example or more of every kind of source.
pub fn graphs() -> Vec<Case> {
    vec![
        case(&[("graph.ttl", TURTLE), ("map.tsv", MAPPING)]),
        case(&[("graph.nt", N_TRIPLES), ("map.tsv", MAPPING)]),
        case(&[
            (
                "triples.tsv",
                b"subject\tpredicate\tobject\n7\tdirector\tmann\nmann\tborn in\tchicago\n9\tdirector\tjoe\n",
            ),
            ("mapping=plain.tsv", b"7\t7\n9\t9\n"),
        ]),
        case(&[
            ("kg.tsv", b"head_id:token\trelation_id:token\ttail_id:token\nm.7\tfilm.by\tm.1\nm.9\tfilm.by\tm.1\n"),
            ("link.tsv", b"item_id:token\tentity_id:token\n7\tm.7\n9\tm.9\n"),
        ]),
        case(&[
            ("features.tsv", b"item\tpredicate_id\tobject_id\n7\t0\t5\n9\t0\t5\n9\t1\t6\n"),
            (
                "predicates.tsv",
                b"predicate_chain\tpredicate_id\thops\nhttp://x/author~http://x/born\t0\t2\nhttp://x/by\t1\t1\n",
            ),
        ]),
        case(&[("features=facts.tsv", b"item\tpredicate\tobject\n7\tdirector\tMann\n9\tdirector~born\tChicago\n")]),
    ]
}

/// Reads a graph for a small catalog; whether it can be read.
///
/// # Panics
/// If something that must hold of facts does not.
pub fn check_graph(case: &Case, skip_bad: bool) -> bool {
    let files: Vec<(&str, &[u8])> = case.files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    let options = LoadOptions { skip_bad, ..LoadOptions::default() };
    let catalog = Catalog::of_ids(["7", "8", "9"].into_iter().collect());
    let plan = GraphConfig { hops: 3, least_items: 1, inverse: skip_bad, ..GraphConfig::default() };
    match graph_of_bytes(&plan, &files, &catalog, &options) {
        Ok((facts, report)) => {
            assert!(report.linked <= catalog.len());
            check_facts(&facts, &catalog);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

fn check_facts(facts: &Facts, catalog: &Catalog) {
    assert_eq!(facts.items(), catalog.len());
    for feature in 0..facts.features() {
        assert!((1..=3).contains(&facts.hops(feature)) && !facts.name(feature).is_empty());
        let items_with = facts.items_with(feature);
        assert!(
            !items_with.is_empty() && items_with.iter().all(|item| facts.of(item as usize).contains(feature as u32))
        );
    }
    let text = format!("item\ttitle\tcategories\tfacts\n{}{}", lines(facts), facts.features_text());
    // Catalogs without any feature say so; others come back from their text.
    if facts.features() > 0 {
        let read = Facts::of_catalog(&text).map(|read| read.map(|(facts, _)| facts.len()));
        assert_eq!(read, Ok(Some(facts.len())), "{text}");
    }
}

fn lines(facts: &Facts) -> String {
    (0..facts.items()).map(|item| format!("{item}\t\t\t{}\n", facts.item_text(item))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_graphs_are_read() {
        for case in graphs() {
            assert!(check_graph(&case, false), "{:?}", case.files[0].0);
        }
    }
}
