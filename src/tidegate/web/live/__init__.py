"""The page is alive: one reader of the store, one stream, and every open page up to date."""
