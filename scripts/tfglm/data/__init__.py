"""From CSV files to shards and to the dictionary of levels. No TensorFlow here."""
