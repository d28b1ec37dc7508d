"""What a primitive tensor function is and how it becomes object code. Never runs code."""
