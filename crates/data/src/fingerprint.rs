//! One short name for exactly these interactions.

use crate::interactions::Interactions;
use sottovoce_core::Names;

/// A BLAKE3 hash, in hexadecimal, of users, items and every user's history in time order.
///
/// It does not depend on how rows of different users are mixed, nor on the order of one user's rows with different
/// times: nothing downstream does. Rows of equal time (or without times) count in their order, because splits do.
/// Titles and categories are left out.
pub fn fingerprint(clean: &Interactions) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"sottovoce interactions 1");
    hasher.update(&[u8::from(!clean.rating.is_empty()), u8::from(!clean.time.is_empty())]);
    add_names(&mut hasher, &clean.users);
    add_names(&mut hasher, &clean.catalog.ids);
    let (starts, rows) = clean.rows_in_time();
    let mut buffer = Vec::new();
    for user in 0..clean.users.len() {
        let rows = &rows[starts[user]..starts[user + 1]];
        buffer.clear();
        buffer.extend_from_slice(&(rows.len() as u64).to_le_bytes());
        for &row in rows {
            let row = row as usize;
            buffer.extend_from_slice(&clean.item[row].to_le_bytes());
            buffer.extend_from_slice(&clean.rating_at(row).to_bits().to_le_bytes());
            buffer.extend_from_slice(&clean.time_at(row).to_le_bytes());
        }
        hasher.update(&buffer);
    }
    hasher.finalize().to_hex().to_string()
}

fn add_names(hasher: &mut blake3::Hasher, names: &Names) {
    hasher.update(&(names.len() as u64).to_le_bytes());
    for name in names.iter() {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
}
