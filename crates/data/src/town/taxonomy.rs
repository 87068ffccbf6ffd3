//! The two category trees of a town: of its places and of the web pages its residents read.

/// Main categories of places, each with [`LEAVES_A_TOP`] categories below it.
pub const PLACE_TREE: [(&str, [&str; LEAVES_A_TOP]); TOPS] = [
    ("Food", ["Trattoria", "Pizzeria", "Sushi Bar", "Burger Grill", "Vegan Kitchen", "Noodle House"]),
    ("Drinks", ["Café", "Wine Bar", "Pub", "Cocktail Bar", "Tea Room", "Juice Bar"]),
    ("Nightlife", ["Night Club", "Jazz Cellar", "Karaoke Lounge", "Comedy Club", "Dance Hall", "Game Arcade"]),
    ("Culture", ["Art Gallery", "History Museum", "Science Museum", "Theatre", "Concert Hall", "Cinema"]),
    ("Outdoors", ["Park", "Beach", "Garden", "Lookout", "Lakeside", "Forest Trail"]),
    ("Sport", ["Gym", "Climbing Hall", "Swimming Pool", "Football Ground", "Tennis Club", "Yoga Studio"]),
    ("Shops", ["Bookshop", "Record Shop", "Boutique", "Market Hall", "Electronics Shop", "Antiques Shop"]),
    ("Daily Life", ["Supermarket", "Bakery", "Library", "Hairdresser", "Post Office", "Pharmacy"]),
    ("Family", ["Playground", "Zoo", "Aquarium", "Ice Cream Parlour", "Puppet Theatre", "Toy Shop"]),
    ("Travel", ["Railway Station", "Hotel", "Ferry Pier", "Tram Stop", "Bus Terminal", "Bike Hire"]),
];

/// Number of main categories of places.
pub const TOPS: usize = 10;
/// Number of categories below each main category.
pub const LEAVES_A_TOP: usize = 6;
/// Number of place categories: the length of a taste vector.
pub const LEAVES: usize = TOPS * LEAVES_A_TOP;

/// Name of a place category.
pub fn leaf_name(leaf: usize) -> &'static str {
    PLACE_TREE[leaf / LEAVES_A_TOP].1[leaf % LEAVES_A_TOP]
}

/// Name of a main category of places.
pub fn top_name(top: usize) -> &'static str {
    PLACE_TREE[top].0
}

/// Main categories of web pages, the main category of places whose lovers read them, and the categories below.
///
/// Health and Public Affairs are what look-alike modelling has to leave out as sensitive.
pub const PAGE_TREE: [(&str, usize, [&str; TOPICS_A_SECTION]); SECTIONS] = [
    ("Food & Drink", 0, ["Recipes", "Restaurant Reviews", "Coffee", "Wine & Beer", "Street Food"]),
    ("Going Out", 1, ["Bars", "Quiz Nights", "Festivals", "Dating", "Local Events"]),
    ("Music", 2, ["Live Music", "Jazz", "Pop", "Club Culture", "Classical"]),
    ("Arts", 3, ["Painting", "Theatre", "Film", "Photography", "Architecture"]),
    ("Books", 3, ["Novels", "Crime Fiction", "Poetry", "Comics", "History"]),
    ("Nature", 4, ["Hiking", "Gardening", "Wildlife", "Weather", "Sailing"]),
    ("Sports", 5, ["Football", "Tennis", "Running", "Climbing", "Yoga"]),
    ("Style", 6, ["Fashion", "Beauty", "Interior Design", "Vintage", "Jewellery"]),
    ("Technology", 6, ["Phones", "Video Games", "Programming", "Gadgets", "Space"]),
    ("Home", 7, ["Housekeeping", "Pets", "Saving Money", "Renting", "Repairs"]),
    ("Families", 8, ["Parenting", "Schools", "Toys", "Teenagers", "Family Days"]),
    ("Journeys", 9, ["City Breaks", "Trains", "Islands", "Budget Travel", "Hotels"]),
    ("Health", 7, ["Symptoms", "Medication", "Sleep", "Diets", "Therapy"]),
    ("Public Affairs", 9, ["Elections", "Religion", "Gambling", "Town Council", "Taxes"]),
];

/// Number of main categories of web pages.
pub const SECTIONS: usize = 14;
/// Number of page categories below each main category.
pub const TOPICS_A_SECTION: usize = 5;
/// Number of page categories.
pub const TOPICS: usize = SECTIONS * TOPICS_A_SECTION;

/// Name of a page category.
pub fn topic_name(topic: usize) -> &'static str {
    PAGE_TREE[topic / TOPICS_A_SECTION].2[topic % TOPICS_A_SECTION]
}

/// Name of a main category of pages.
pub fn section_name(section: usize) -> &'static str {
    PAGE_TREE[section].0
}
