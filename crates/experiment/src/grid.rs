//! Combinations of lists of values.

use sottovoce_models::settings::Value;

/// Every combination, in the order of the lists; the last setting varies fastest. Of no lists there is one, empty.
pub fn combinations(lists: &[(String, Vec<Value>)]) -> Vec<Vec<(String, Value)>> {
    lists.iter().fold(vec![Vec::new()], |combinations, (key, values)| {
        let extend = |start: &Vec<(String, Value)>, value: &Value| {
            let mut longer = start.clone();
            longer.push((key.clone(), value.clone()));
            longer
        };
        combinations.iter().flat_map(|start| values.iter().map(move |value| extend(start, value))).collect()
    })
}
