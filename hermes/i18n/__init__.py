"""Messages for people: the text and its values, the catalog of translations, formats of numbers and times."""
