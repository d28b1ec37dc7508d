"""What was measured and is kept: the database, its text form, what is made of a record again."""
